// Tests the page of the tour with invented topics. usage: node tour.js TOUR.html
"use strict";
const assert = require("assert"), open = require("../support/document.js");

const data = [{device: "ref", name: "one", title: "a product", text: "x w^T", items: [
  {name: "x", text: "a row", array: {shape: [1, 2], numbers: [1, -2]}},
  {name: "y", equation: "x w^T", array: {shape: [1, 1], numbers: [11]}},
  {element: {index: 0, device: 11, ref: 11, exact: 11.0001, ratio: 0.25}},
  {check: true, text: "y is what was worked out by hand"},
  {check: false, text: "y is twelve"},
  {text: "that is all"}]},
 {device: "ref", name: "two", title: "many", text: "", items: [
  {name: "z", array: {shape: [20, 10], numbers: Array.from({length: 200}, (_, i) => i)}},
  {name: "w", labels: {rows: ["it"], columns: ["cat", "it"]}, array: {shape: [1, 2], numbers: [0.75, 0.25]}}]}];
const $ = open(process.argv[2], data, {checks: "", theme: ""});

assert.strictEqual($("summary").textContent, "1 of 2 reproduced, on ref.");
assert.deepStrictEqual($("topics").all("a").map(a => [a.attributes.href, a.textContent]), [["#topic-0", "one: a product"], ["#topic-1", "two: many"]]);
const sections = () => $("tour").children, facts = s => s.all("div").filter(d => (d.attributes.class || "").startsWith("fact"));
assert.deepStrictEqual(sections()[0].all("td").map(td => td.textContent), ["1", "-2", "11"]);
assert.ok(sections()[0].textContent.includes("y = x w^T  [1, 1]"), sections()[0].textContent);
// The device's value, the exact one and err/bound.
assert.strictEqual(facts(sections()[0])[0].textContent, " device 11 exact 11 scalar path 11 err/bound 0.25");
assert.deepStrictEqual(facts(sections()[0]).slice(1).map(d => d.attributes.class), ["fact ok", "fact wrong"]);
// Negative numbers have another colour; the largest magnitude of an array has the strongest.
const styles = sections()[0].all("td").map(td => td.attributes.style);
assert.ok(styles[1].includes("200,60,50,0.750") && !styles[0].includes("200,60,50"), styles.join());
// An array of many numbers is drawn as a picture; an attention map has its tokens on both sides.
assert.strictEqual(sections()[1].all("canvas")[0].getContext().rects.length, 200);
assert.deepStrictEqual(sections()[1].all("th").map(th => th.textContent), ["", "cat", "it", "it"]);
assert.deepStrictEqual(sections()[1].all("td").map(td => td.textContent), ["75", "25"]);
// The filter of checks, and the theme.
$("checks").value = "wrong";
$("checks").oninput();
assert.deepStrictEqual(facts(sections()[0]).slice(1).map(d => d.attributes.class), ["fact wrong"]);
$("theme").value = "dark";
$("theme").oninput();
assert.strictEqual($.root.dataset.theme, "dark");
