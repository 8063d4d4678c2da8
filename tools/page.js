"use strict";
// The script that all pages of vkformer share. tool_write_page() inserts it; a page adds its own after it.
const documents = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
// Makes an element; {svg: 1}: an SVG element. Undefined attributes are left out.
const make = (tag, attributes = {}, text) => {
  const e = attributes.svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) if (k !== "svg" && v !== undefined) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
};
// Follows the field "theme". draw: draws again in the theme's colours.
function followTheme(draw = () => {}) {
  $("theme").oninput = () => {
    if ($("theme").value) document.documentElement.dataset.theme = $("theme").value; else delete document.documentElement.dataset.theme;
    draw();
  };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
