// Builds elements and formats values. Text always becomes a text node: no markup is ever parsed.

/** An element. `attributes`: names with values; `on…` functions are listeners; null and false are left out. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return element;
}

/** Replace what an element contains. */
export function put(element, ...children) {
  element.replaceChildren();
  return fill(element, null, children);
}

/** The address of a screen: `link("session", id)`. The token is never part of it. */
export function link(screen, ...rest) {
  const query = typeof rest.at(-1) === "object" ? rest.pop() : {};
  const path = [screen, ...rest].map((part) => encodeURIComponent(part)).join("/");
  const values = Object.entries(query).filter(([, value]) => value);
  return `#/${path}${values.length ? `?${new URLSearchParams(values)}` : ""}`;
}

const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

export function count(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of UNITS) {
    if (Math.abs(value) >= size) return `${trim(value / size, 1)}${unit}`;
  }
  return trim(value, 1);
}

const trim = (value, digits) => value.toFixed(digits).replace(/\.0+$/, "");

/** Micro-dollars as dollars, with more digits for small amounts. */
export function dollars(micro) {
  if (micro === null || micro === undefined) return "–";
  const value = micro / 1e6;
  return `$${value === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(value >= 1 ? 2 : value >= 0.01 ? 3 : 4)}`;
}

export function span(seconds) {
  if (!seconds) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${trim(seconds / 3600, 1)} h` : `${Math.round(seconds / 86400)} d`;
}

export function clock(seconds) {
  const date = new Date(seconds * 1000);
  const time = date.toTimeString().slice(0, 8);
  return date.toDateString() === new Date().toDateString() ? time : `${day(seconds)} ${time.slice(0, 5)}`;
}

export function day(seconds) {
  const date = new Date(seconds * 1000);
  return `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
}

export const percent = (share) => (Number.isFinite(share) ? `${Math.round(share * 100)} %` : "–");

/** The share of a prompt that came from the cache. `input` counts all tokens of the prompt. */
export const cacheShare = (row) => (row.input && row.cache_read !== null ? row.cache_read / row.input : NaN);

export const short = (text, length = 80) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** A heading with text at its side. */
export const heading = (text, ...rest) => h("div", { class: "heading" }, h("h1", null, text), rest);

/** A small mark with a colour: `ok`, `bad`, `warn` or none. */
export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);

/** A bar that is filled to a share, with its text. */
export function meter(share, text, kind = "") {
  const inside = h("span", { class: `fill ${kind}` });
  inside.style.setProperty("width", `${Math.min(100, Math.max(0, share * 100 || 0))}%`);
  return h("span", { class: "meter" }, inside, h("span", { class: "value" }, text));
}

/** A table. `columns`: `[heading, class]`; `rows`: lists of cells. A row may have an address as `href`. */
export function table(label, columns, rows, empty = "nothing yet") {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const head = h("tr", null, columns.map(([text, kind]) => h("th", { class: kind, scope: "col" }, text)));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h("table", { "aria-label": label }, h("thead", null, head), h("tbody", null, rows.map((row) => tableRow(columns, row)))));
}

export function tableRow(columns, { cells, href, kind }) {
  return h("tr", { class: kind }, cells.map((cell, position) => {
    const content = position === 0 && href ? h("a", { href, class: "row" }, cell) : cell;
    const [name, kind] = columns[position];
    return h("td", { class: kind, "data-name": name }, content ?? "");
  }));
}

/** Facts side by side: `[name, value]`. */
export const factList = (facts) => h("dl", { class: "facts" }, facts.filter(Boolean).map(([name, value]) =>
  h("div", null, h("dt", null, name), h("dd", null, value))));
