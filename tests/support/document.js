// Opens a page of vkformer without a browser, with as much of a document as the pages use.
// open(PAGE, DATA, VALUES) runs the page's script with DATA in it and these fields set, and returns getElementById.
"use strict";
const assert = require("assert"), fs = require("fs"), path = require("path");

// Keeps what is drawn: the rectangles of a canvas, with their colours.
class Canvas {
  constructor() { this.rects = []; this.strokes = 0; }
  fillRect(x, y, w, h) { this.rects.push({x, y, w, h, fill: this.fillStyle, alpha: this.globalAlpha}); }
  clearRect() { this.rects = []; this.strokes = 0; }
  stroke() { this.strokes++; }
  measureText(text) { return {width: 7 * text.length}; }
  save() {} restore() {} translate() {} rotate() {} setTransform() {} fillText() {} strokeRect() {} beginPath() {} moveTo() {} lineTo() {}
}

class Element {
  constructor(tag) { Object.assign(this, {tag, children: [], own: "", attributes: {}, style: {}, dataset: {}, className: "", clientWidth: 800}); }
  append(...what) { what.forEach(c => { c.parentNode = this; }); this.children.push(...what); }
  replaceChildren(...what) { this.children = []; this.append(...what); }
  replaceWith(other) { this.tag = other.tag; this.own = other.own; this.children = other.children; }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  addEventListener() {}
  getContext() { return this.context ??= new Canvas(); }
  getBoundingClientRect() { return {left: 0, top: 0, width: this.clientWidth, height: this.clientWidth}; }
  // The cells of a picture: groups with a title, a row and a column.
  set innerHTML(html) {
    this.replaceChildren(...[...html.matchAll(/<g class="cell[^"]*" data-row="(\d+)" data-column="(\d+)"><title>([^<]*)<\/title>/g)].map(([, row, column, text]) => {
      const cell = new Element("g"), title = new Element("title"), classes = new Set();
      title.textContent = text;
      cell.append(title);
      cell.dataset = {row, column};
      cell.classList = {add: c => classes.add(c), remove: c => classes.delete(c), contains: c => classes.has(c)};
      return cell;
    }));
  }
  querySelectorAll() { return this.all("g"); }
  querySelector(tag) { return this.all(tag)[0] ?? (this.svg ??= new Element("svg")); }
  closest() { return this.tag === "g" ? this : null; }
  scrollIntoView() { Element.scrolled = this; }
  focus() { Element.focused = this; }
  // Does what a browser does on a key; returns true if the page took it.
  press(key) { let taken = false; this.onkeydown({key, preventDefault: () => { taken = true; }}); return taken; }
  set textContent(text) { this.own = String(text); this.children = []; }
  get textContent() { return this.own + this.children.map(c => c.textContent).join(""); }
  get firstChild() { return this.children[0]; }
  set value(v) { this.chosen = v; }
  get value() { return this.chosen ?? (this.children[0] ? this.children[0].attributes.value ?? this.children[0].own : ""); }
  all(tag) { return this.children.flatMap(c => [...(c.tag === tag ? [c] : []), ...c.all(tag)]); }
}

module.exports = (file, data, values = {}) => {
  const elements = {};
  const get = id => {
    if (!elements[id]) { elements[id] = new Element(id); elements[id].parentNode = new Element("parent"); }
    return elements[id];
  };
  get("data").textContent = JSON.stringify(data);
  for (const [id, value] of Object.entries(values)) get(id).value = value;
  const root = new Element("html"), colours = {"--panel": "#000000", "--mark": "#ffffff"};
  const document = {getElementById: get, createElement: tag => new Element(tag), createElementNS: (space, tag) => new Element(tag),
                    documentElement: root};
  const window = {devicePixelRatio: 1, addEventListener() {}, matchMedia: () => ({addEventListener() {}})};
  const style = () => ({getPropertyValue: name => colours[name] || "#808080"});
  const shared = fs.readFileSync(path.join(__dirname, "../../tools/page.js"), "utf8");
  const html = fs.readFileSync(file, "utf8").replace("/* page.js */\n", () => shared), scripts = [...html.matchAll(/<script>([^]*?)<\/script>/g)];
  assert.strictEqual(scripts.length, 1);
  new Function("document", "window", "getComputedStyle", scripts[0][1])(document, window, style);
  get.focused = () => Element.focused;
  get.root = root;
  return get;
};
