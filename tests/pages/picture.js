// Tests the page around a picture: hover, arrow keys, size, theme. usage: node picture.js PICTURE.html
"use strict";
const assert = require("assert"), open = require("../support/document.js");

// Four cells: rows 0 and 1 of column 0, rows 1 and 4 of column 2.
const cell = (row, column, title) => `<g class="cell x" data-row="${row}" data-column="${column}"><title>${title}</title><rect/></g>`;
const $ = open(process.argv[2], [{svg: `<svg>${cell(0, 0, "a")}${cell(1, 0, "b")}${cell(1, 2, "c")}${cell(4, 2, "d")}</svg>`}], {size: "", theme: ""});
const cells = $("picture").all("g"), said = () => $("say").textContent, marked = () => cells.map(c => c.classList.contains("at"));
assert.strictEqual(said(), "Point at a cell, or choose one with the arrow keys.");

// Pointing at a cell shows its title; outside the cells nothing changes.
$("picture").onmouseover({target: cells[1]});
assert.strictEqual(said(), "b");
$("picture").onmouseover({target: $("picture")});
assert.strictEqual(said(), "b");
assert.deepStrictEqual(marked(), [false, true, false, false]);

// Arrow keys go to the nearest cell of the next column or row and stop at the edge.
const go = (key, to) => { assert.ok($("picture").press(key)); assert.strictEqual(said(), to); };
go("ArrowRight", "c");
go("ArrowDown", "d");
go("ArrowDown", "d");
go("ArrowLeft", "b");
go("ArrowUp", "a");
go("ArrowRight", "c");
assert.ok(!$("picture").press("a"));
assert.deepStrictEqual(marked(), [false, false, true, false]);

$("size").value = "fit";
$("size").oninput();
assert.strictEqual($("picture").querySelector("svg").style.width, "100%");
$("theme").value = "dark";
$("theme").oninput();
assert.strictEqual($.root.dataset.theme, "dark");

// A page without a picture.
const none = open(process.argv[2], [], {});
none("picture").press("ArrowDown");
