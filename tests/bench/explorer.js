// Tests the tile explorer with invented rows: runs its script with a minimal document and checks what the page shows.
// usage: node explorer.js EXPLORER.html
"use strict";
const assert = require("assert"), fs = require("fs"), open = require("../support/document.js");

const page = documents => open(process.argv[2], documents, {measure: "gflops"});

const row = (problem, variant, min_us, median_us, p90_us, more) => ({
  problem, variant, min_us, median_us, p90_us, runs: 9, ratio: 0.5, flops: 1e6, bytes: 1e4, gflops: 1e3 / median_us,
  gbytes: 10 / median_us, workgroup: 64, shared_bytes: 0, peak_share: null, roof: null, ...more});
const shared = t => `matmul-shared-${t}`;
const made = (tile, more) => ({problem: "matmul:40,64,64", op: "matmul", name: shared(tile), stage: 0, mode: "fast",
  failure: null, picked: false, shared: 1024, statistics: {VGPRs: 64}, ...more});
const $ = page([{device: "one", driver: "d", version: "0", peak: {gflops: 100, gbytes: 10, cached_gbytes: 20}, rows: [
  row("matmul:40,64,64", shared("32x16x16-m4n2"), 10, 11, 12, {peak_share: 0.5, roof: "caches"}),
  row("matmul:40,64,64", shared("128x16x16-m4n4"), 12, 13, 14), // within the 90th percentile of the best: a tie
  row("matmul:40,64,64", shared("32x64x16-m4n4"), 20, 22, 23),
  row("matmul:40,64,64", "matmul-naive-m1n1", 0, 0, 0, {runs: 0, ratio: 2}),
  row("matmul:8,1000,64", shared("32x16x16-m4n2"), 10, 11, 12),
  row("matmul:8,200,64", shared("128x16x16-m4n4"), 10, 11, 12, {peak_share: 0.25, roof: "multiply-adds"}),
]}, {device: "two", driver: "d", version: "0", rows: [row("norm:8,64", "norm-row-64", 1, 2, 3)]},
 {format: "vkformer-farm/1", chips: [
  {chip: "navi31", kernels: [made("32x16x16-m4n2", {registers: 64, instructions: 900, occupancy: 16, picked: true}),
                             made("32x64x16-m4n4", {registers: 128, instructions: 1500, spills: 3, scratch: 0}),
                             made("32x64x16-m4n4", {registers: 250, mode: "reproducible"})]},
  {chip: "m1", kernels: [made("32x16x16-m4n2", {failure: "out of registers"})]}]}]);

// One sentence for each shape, sorted by K, then N, then M: winner, ties by spread, slower and wrong kernels, why.
assert.deepStrictEqual($("why").all("li").map(e => e.textContent), [
  "40 x 64 x 64: matmul-shared-32x16x16-m4n2, 11.00 us, 50 % of what its caches deliver. Not told apart from it: " +
    "matmul-shared-128x16x16-m4n4. matmul-shared-32x64x16-m4n4 takes 2.00 times as long. 1 over the bound. There an " +
    "invocation uses each number it loads 4 and 2 times, the last tile of rows is filled to 25 %.",
  "8 x 200 x 64: matmul-shared-128x16x16-m4n4, 11.00 us, 25 % of what its multiply-adds allow. There an invocation uses each " +
    "number it loads 4 and 4 times, 120 of the 128 rows of a tile are idle.",
  "8 x 1000 x 64: matmul-shared-32x16x16-m4n2, 11.00 us. There an invocation uses each number it loads 4 and 2 times, 24 of " +
    "the 32 rows of a tile are idle.",
]);

// Tiles of the chosen shape in numerical order: rows of a workgroup down, columns across.
$("shape").value = "40,64,64";
$("shape").onchange();
assert.deepStrictEqual($("grid").all("tr").map(line => line.children.map(cell => cell.textContent)),
                       [["", "16", "64"], ["32", "11.00", "22.00"], ["128", "13.00", "-"]]);
assert.deepStrictEqual($("grid").all("td").filter(c => c.className === "best").map(c => c.title), [shared("32x16x16-m4n2")]);

// The heat map: kernels in numerical order, the fastest of each column framed, a dash if there is no row, a cross if
// it is over its bound.
assert.deepStrictEqual($("heat").all("tr").map(line => line.children.map(cell => cell.textContent)), [
  ["", "40 x 64 x 64", "8 x 200 x 64", "8 x 1000 x 64"],
  ["matmul-naive-m1n1", "\u2715", "-", "-"],
  [shared("32x16x16-m4n2"), "90.9", "-", "90.9"],
  [shared("32x64x16-m4n4"), "45.5", "-", "-"],
  [shared("128x16x16-m4n4"), "76.9", "90.9", "-"],
]);
assert.strictEqual($("heat").all("td").filter(c => c.className === "best").length, 3);

// Compilers' statistics beside the time of the same kernel on the same problem.
assert.deepStrictEqual($("farm").all("tr").map(line => line.children.map(cell => cell.textContent)), [
  ["", "us on one", "us on two", "shared B", "navi31", "m1"],
  [shared("32x16x16-m4n2"), "11.00", "-", "1024", "64 r, 900 i, 16 o", "not made"],
  [shared("32x64x16-m4n4"), "22.00", "-", "1024", "128 r, 1500 i, 3 spills", "-"],
]);
assert.deepStrictEqual($("farm").all("td").filter(c => c.attributes.class === "best").map(c => c.textContent), ["64 r, 900 i, 16 o"]);
assert.strictEqual($("farms").hidden, false);
const alone = page([{device: "one", driver: "d", version: "0", peak: {gflops: 100, matrix_gflops: 400, gbytes: 10, cached_gbytes: 20},
                     rows: [row("norm:8,64", "norm-row-64", 1, 2, 3)]}]);
assert.strictEqual(alone("farms").hidden, true);
// The roofs of memory and caches, each below that of multiply-adds and, if the device has any, that of matrix cores.
assert.strictEqual($("roof").all("path").length, 2);
assert.strictEqual(alone("roof").all("path").length, 4);

// The table has all rows of the operation; the page explains every word of a kernel's name.
assert.strictEqual($("body").all("tr").length, 6);
assert.strictEqual($("count").textContent, "6 of 7 rows.");
const html = fs.readFileSync(process.argv[2], "utf8"), words = [...html.matchAll(/<dt>(\w+)<\/dt>/g)].map(m => m[1]);
for (const word of ["lane", "texel", "w16", "m4n4", "shared", "split", "uniform"]) assert.ok(words.includes(word), word);
// Its text has no word twice in a row, as a sentence and the label of a field behind it may have.
const prose = html.replace(/^[^]*<body>|<script[^]*/g, "").replace(/<[^>]*>/g, " ");
assert.deepStrictEqual(prose.match(/\b(\w+)\b[\s:.,]+\1\b/g), null);
