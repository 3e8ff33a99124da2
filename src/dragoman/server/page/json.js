// Shows JSON as a tree that is built where it is opened. Long texts are cut until they are opened.

import { h, short } from "./dom.js";

const LONG = 600;
/** Levels that are open at first, if their values are small. */
const DEPTH = 2;

const isNode = (value) => value !== null && typeof value === "object";
const join = (path, name, isList) => (isList ? `${path}[${name}]` : path ? `${path}.${name}` : name);

/** A tree. `marks`: a map of paths to differences; places on the way to one are marked too. */
export function jsonTree(value, marks = new Map(), path = "") {
  return h("div", { class: "json" }, isNode(value) ? children(value, marks, path, 0) : leaf(value));
}

function children(value, marks, path, depth) {
  const isList = Array.isArray(value);
  return h("ul", null, Object.entries(value).map(([name, each]) => item(name, each, marks, join(path, name, isList), depth)));
}

function item(name, value, marks, path, depth) {
  const mark = marks.get(path);
  const label = h("span", { class: "name" }, name);
  const attributes = { "data-path": path, class: mark ? `mark ${mark.kind}` : null, title: mark?.cause || null };
  if (!isNode(value)) return h("li", attributes, label, leaf(value));
  const size = Object.keys(value).length;
  const summary = h("summary", null, label, h("span", { class: "hint" }, preview(value, size)));
  const details = h("details", null, summary);
  const open = () => {
    if (details.childElementCount === 1) details.append(children(value, marks, path, depth + 1));
  };
  details.addEventListener("toggle", open);
  const leadsToMark = [...marks.keys()].some((each) => each.startsWith(path) && each !== path);
  if (size && ((depth < DEPTH && size <= 12) || leadsToMark)) {
    open();
    details.open = true;
  }
  return h("li", attributes, details);
}

function preview(value, size) {
  if (Array.isArray(value)) return size ? `[${size}]` : "[ ]";
  const tags = ["type", "role", "name"].map((name) => value[name]).filter((each) => typeof each === "string");
  return size ? `{${tags.length ? short(tags.join(" "), 60) : size}}` : "{ }";
}

function leaf(value) {
  if (typeof value !== "string") return h("span", { class: typeof value }, String(value));
  if (value.length <= LONG) return h("span", { class: "string" }, value);
  const text = h("span", { class: "string" }, value.slice(0, LONG));
  const more = h("button", { type: "button", class: "plain", onclick: () => {
    text.textContent = value;
    more.remove();
  } }, `… ${value.length - LONG} more characters`);
  return [text, more];
}

/** One line that says what an event is: its kind, and the texts that it carries. */
export function summarise(event) {
  const data = event.data;
  if (!isNode(data)) return [event.event || "text", String(data)];
  const texts = [];
  collect(data, texts, 0);
  return [String(data.type ?? (event.event || "data")), texts.join(" ")];
}

const TELLING = new Set(["text", "thinking", "partial_json", "arguments", "content", "delta", "name", "reasoning", "reasoning_content",
  "stop_reason", "finish_reason", "finishReason", "output_text", "message", "id", "args"]);

function collect(value, texts, depth) {
  for (const [name, each] of Object.entries(value)) {
    if (texts.length > 6 || depth > 8) return;
    if (isNode(each)) collect(each, texts, depth + 1);
    else if (typeof each === "string" && each && TELLING.has(name) && !(name === "id" && depth === 0)) texts.push(each);
  }
}
