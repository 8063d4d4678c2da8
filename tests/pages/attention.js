// Tests the page of attention weights with invented weights: hover, choice of a head, keys, filters, views.
// usage: node attention.js ATTENTION.html
"use strict";
const assert = require("assert"), open = require("../support/document.js");

// Two layers of two heads over three tokens; head 1 of layer 1 looks from "it" at "cat".
const even = "3333 3333 3334 3333 3333 3334 3333 3333 3334", sharp = "10000 0 0 9000 1000 0 0 0 10000";
const layers = [0, 1].map(layer => ({layer, heads: [0, 1].map(head => ({head, weights: layer === 1 && head === 1 ? sharp : even}))}));
const cross = [{layer: 0, heads: [{head: 0, weights: "5000 2500 2500 0 7500 2500"}]}];
const rule = {scale: 0.25, head_width: 16, has_bias: false};
const one = {text: "cat it", translation: "gato", family: "marian", device: "ref", source: ["cat", "it", "</s>"], target: ["<s>", "gato"],
             next: ["gato", "</s>"], special_source: [2], special_target: [0], picked: -1, picked_column: -1, image: null, parts: [
  {kind: "encoder", rows: "source", columns: "source", causal: false, ...rule, n_rows: 3, n_columns: 3, layers},
  {kind: "cross", rows: "target", columns: "source", causal: false, ...rule, n_rows: 2, n_columns: 3, layers: cross}]};
const $ = open(process.argv[2], [one], {least: "0", like: "", special: "", scale: "linear", theme: ""});
const thumbs = () => $("grid").all("button"), pressed = () => thumbs().map(b => b.attributes["aria-pressed"]);
const cells = () => $("map").getContext().rects, bars = id => $(id).all("li").map(li => li.children.map(c => c.textContent).filter(Boolean));
const white = rect => rect.fill === "rgb(255,255,255)";

// The texts, the facts and a thumbnail for each head; the first head is chosen.
assert.strictEqual($("text").textContent, "cat it");
assert.strictEqual($("translation").textContent, "gato");
assert.strictEqual($("facts").textContent, "marian on ref; 3 tokens and 2 of the translation.");
assert.deepStrictEqual(pressed(), ["true", "false", "false", "false"]);
assert.strictEqual(cells().length, 9);

// A click on a thumbnail shows its head: two cells have the full weight, in the map and in the thumbnail.
thumbs()[3].onclick();
assert.deepStrictEqual(pressed(), ["false", "false", "false", "true"]);
assert.deepStrictEqual([$("layer").value, $("head").value], ["1", "1"]);
assert.strictEqual(cells().filter(white).length, 2);
assert.strictEqual(thumbs()[3].all("canvas")[0].getContext().rects.filter(white).length, 2);

// Arrow keys go from head to head and stop at the edge; "." and "," in the map go round.
assert.ok(thumbs()[3].press("ArrowLeft"));
assert.deepStrictEqual(pressed(), ["false", "false", "true", "false"]);
assert.strictEqual($.focused(), thumbs()[2]);
thumbs()[2].press("ArrowDown");
assert.deepStrictEqual(pressed(), ["false", "false", "true", "false"]);
assert.ok(!thumbs()[2].press("a"));
assert.ok($("map").press("."));
assert.deepStrictEqual(pressed(), ["false", "false", "false", "true"]);
$("map").press(".");
assert.deepStrictEqual(pressed(), ["true", "false", "false", "false"]);
$("map").press(",");
assert.deepStrictEqual(pressed(), ["false", "false", "false", "true"]);

// Pointing at a cell shows its weight, and that of the pair in every head; outside the cells nothing changes.
const where = (row, column) => { const r = cells()[3 * row + column]; return {clientX: r.x + 1, clientY: r.y + 1}; };
$("map").onmousemove(where(1, 0));
assert.strictEqual($("say").textContent, "\u201cit\u201d (1) looks at \u201ccat\u201d (0): 90.0 %");
$("map").onmousemove({clientX: 1e6, clientY: 0});
assert.strictEqual($("say").textContent, "\u201cit\u201d (1) looks at \u201ccat\u201d (0): 90.0 %");
assert.deepStrictEqual(bars("pair")[0], ["layer 1, head 1", "90.0 %"]);
assert.strictEqual(bars("pair").length, 4);

// A click picks a row: the page shows its bars, draws only its lines and fades other rows. Escape undoes that.
$("map").onclick(where(1, 0));
assert.deepStrictEqual(bars("row"), [["cat (0)", "90.0 %"], ["it (1)", "10.0 %"], ["</s> (2)", "0.00 %"]]);
assert.strictEqual($("lines").all("path").length, 2);
assert.deepStrictEqual(cells().map(r => r.alpha), [.25, .25, .25, 1, 1, 1, .25, .25, .25]);
$("map").press("Escape");
assert.strictEqual(bars("row").length, 0);
assert.strictEqual($("lines").all("path").length, 4);

// Arrow keys go from cell to cell; Enter picks a row, a second Enter undoes that.
$("map").press("ArrowDown");
$("map").press("ArrowRight");
$("map").press("ArrowRight");
assert.strictEqual($("say").textContent, "\u201c</s>\u201d (2) looks at \u201c</s>\u201d (2): 100 %");
$("map").press("ArrowRight"); // the edge
$("map").press("Enter");
assert.deepStrictEqual(bars("row")[0], ["</s> (2)", "100 %"]);
$("map").press("Enter");

// The picked token's weights in every head, a row for each; a click on a row chooses its head.
$("map").onmousemove(where(1, 0));
$("map").onclick(where(1, 0));
assert.strictEqual($("heads").getContext().rects.length, 12);
assert.strictEqual($("heads").getContext().rects[9].fill, "rgb(229,229,229)");
$("heads").onclick({clientX: 0, clientY: 100});
assert.deepStrictEqual(pressed(), ["true", "false", "false", "false"]);
$("heads").onclick({clientX: 0, clientY: 700});
assert.deepStrictEqual(pressed(), ["false", "false", "false", "true"]);

// Without the scale 1/sqrt(d), d = 16, the weights are sharper: 0.9^4 / (0.9^4 + 0.1^4).
assert.ok(!$("of-softmax").hidden);
$("softmax").value = "bare";
$("softmax").oninput();
assert.deepStrictEqual(bars("row")[0], ["cat (0)", "100 %"]);
$("map").onmousemove(where(1, 1));
assert.strictEqual($("say").textContent, "\u201cit\u201d (1) looks at \u201cit\u201d (1): 0.02 %");
$("softmax").value = "";
$("softmax").oninput();
$("map").press("Escape");

// Filters: special tokens, tokens by their text in any case, the least weight.
$("special").value = "off";
$("special").oninput();
assert.strictEqual(cells().length, 4);
$("like").value = "CAT";
$("like").oninput();
assert.strictEqual(cells().length, 1);
$("special").value = $("like").value = "";
$("like").oninput();
$("least").value = "0.95";
$("least").oninput();
assert.strictEqual(cells().filter(r => r.fill !== "rgb(0,0,0)").length, 2);
$("least").value = "0";
$("least").oninput();
assert.strictEqual(cells().filter(r => r.fill !== "rgb(0,0,0)").length, 4);

// Cross attention: a row for each token of the translation; the page also names the token that it writes next.
$("kind").value = "1";
$("kind").onchange();
assert.strictEqual(cells().length, 6);
assert.strictEqual(thumbs().length, 1);
$("map").onmousemove(where(1, 1));
assert.strictEqual($("say").textContent, "\u201cgato\u201d (1), which writes \u201c</s>\u201d next, looks at \u201cit\u201d (1): 75.0 %");
$("theme").value = "dark";
$("theme").oninput();
assert.strictEqual($.root.dataset.theme, "dark");

// If two words are given, the page opens at the head that has the largest weight from the first to the second.
const second = open(process.argv[2], [{...one, picked: 1, picked_column: 0}], {least: "0", like: "", special: "", scale: "linear", theme: ""});
assert.deepStrictEqual([second("layer").value, second("head").value], ["1", "1"]);
assert.strictEqual(second("say").textContent, "\u201cit\u201d (1) looks at \u201ccat\u201d (0): 90.0 %");

// A map that is sampled down: each row is a range of tokens.
const half = {...one, source: ["a", "b", "c", "d", "e", "f"], special_source: []};
const third = open(process.argv[2], [half], {least: "0", like: "", special: "", scale: "linear", theme: ""});
assert.ok(third("facts").textContent.includes("Sampled down"));
assert.ok(third("of-softmax").hidden); // sums of weights do not tell the scores
third("map").press("ArrowDown");
assert.ok(third("say").textContent.startsWith("\u201ca .. b\u201d (0) looks at \u201ca .. b\u201d (0)"), third("say").textContent);

// An image: a patch is dark if the picked token does not look at it.
const image = {width: 2, height: 1, patch_rows: 1, patch_columns: 2, pixels: "0 0 0 255 255 255"};
const fourth = open(process.argv[2], [{...one, source: ["[CLS]", "0,0", "0,1"], special_source: [0], image, parts: [{...one.parts[0], kind: "self"}]}],
                    {least: "0", like: "", special: "", scale: "linear", theme: ""});
assert.ok(!fourth("with-image").hidden && $("with-image").hidden);
fourth("layer").value = fourth("head").value = "1";
fourth("layer").onchange();
fourth("head").value = "1";
fourth("head").onchange();
fourth("image").onclick({clientX: 700, clientY: 0}); // the second patch, which looks at itself alone
assert.deepStrictEqual(fourth("image").getContext().rects.slice(-2).map(r => r.fill), ["rgba(0,0,0,0.850)", "rgba(0,0,0,0.000)"]);
assert.strictEqual(bars("row").length, 0);

// Views of the scores: q*k, then divided by sqrt(16), then with the causal mask.
const causal = {kind: "self", rows: "source", columns: "source", causal: true, ...rule, n_rows: 2, n_columns: 2,
                layers: [{layer: 0, window: 0, heads: [{head: 0, weights: "10000 0 5000 5000", scores: "-400 800 0 0"}]}]};
const fifth = open(process.argv[2], [{...one, source: ["cat", "it"], special_source: [], target: [], parts: [causal]}],
                   {least: "0", like: "", special: "", scale: "linear", theme: "", view: ""});
const map = () => fifth("map").getContext(), look = view => { fifth("view").value = view; fifth("view").oninput(); };
assert.ok(!fifth("of-view").hidden && $("of-view").hidden);
assert.ok(fifth("legend").hidden);
fifth("map").onmousemove({clientX: map().rects[1].x + 1, clientY: map().rects[1].y + 1});
assert.ok(fifth("say").textContent.endsWith(": 0.00 %"));
look("raw");
assert.ok(!fifth("legend").hidden);
assert.deepStrictEqual(map().rects.map(r => r.fill), ["rgb(64,64,64)", "rgb(255,255,255)", "rgb(0,0,0)", "rgb(0,0,0)"]);
assert.ok(fifth("say").textContent.endsWith(": 0.00 %; q\u00b7k = 8.00"), fifth("say").textContent);
assert.deepStrictEqual(["legend-least", "legend-most"].map(id => fifth(id).textContent), ["\u22128.00", "8.00"]);
look("scaled");
assert.ok(fifth("say").textContent.endsWith("; q\u00b7k / \u221ad = 2.00"));
assert.strictEqual(map().strokes, 0);
look("masked");
assert.ok(fifth("say").textContent.endsWith("; masked: \u2212\u221e before the softmax"));
assert.deepStrictEqual([map().strokes, map().rects.length, map().rects[0].fill], [1, 3, "rgb(128,128,128)"]);
assert.strictEqual(fifth("legend-most").textContent, "1.00; a stroke: masked");

// Scores without a scale, with a bias and a window of one key.
const biased = {...causal, scale: 1, has_bias: true, layers: [{layer: 0, window: 1, heads: [{head: 0, weights: "10000 0 0 10000", scores: "-400 800 100 0", bias: "0 0 -50 0"}]}]};
const sixth = open(process.argv[2], [{...one, source: ["cat", "it"], special_source: [], target: [], parts: [biased]}],
                   {least: "0", like: "", special: "", scale: "linear", theme: "", view: ""});
assert.deepStrictEqual(sixth("view").all("option").map(o => o.textContent),
                       ["weights", "scores q\u00b7k", "bias by distance", "q\u00b7k + bias", "q\u00b7k + bias, masked"]);
assert.ok(sixth("of-softmax").hidden);
const below = sixth("map").getContext().rects[2];
sixth("map").onmousemove({clientX: below.x + 1, clientY: below.y + 1});
for (const [view, text] of [["raw", "; q\u00b7k = 1.00"], ["bias", "; bias by distance = \u22120.50"], ["biased", "; q\u00b7k + bias = 0.50"], ["masked", "; masked: \u2212\u221e before the softmax"]]) {
  sixth("view").value = view;
  sixth("view").oninput();
  assert.ok(sixth("say").textContent.endsWith(text), sixth("say").textContent);
}

// A page without a text.
const none = open(process.argv[2], [], {least: "0"});
assert.strictEqual(none("text").textContent, "There is no text on this page.");
