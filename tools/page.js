"use strict";
// What the pages of vkformer share; tool_write_page() puts it into them. A page adds its own after it.
const documents = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
// An element; {svg: 1}: of a picture. Attributes that are undefined are left out.
const make = (tag, attributes = {}, text) => {
  const e = attributes.svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) if (k !== "svg" && v !== undefined) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
};
// The field "theme"; draw: what draws in the theme's colours again.
function followTheme(draw = () => {}) {
  $("theme").oninput = () => {
    if ($("theme").value) document.documentElement.dataset.theme = $("theme").value; else delete document.documentElement.dataset.theme;
    draw();
  };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
