// Charts as SVG: columns over time, lines over time, and the lanes of a session.

import { clock, day, h, s } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 140;
const LEFT = 54;
const BOTTOM = 18;

/** A chart in a figure. `rows`: objects with `at`; `series`: `[{ name, kind, value(row) }]`; `format` a number. */
export function chart(title, rows, series, format, { lines = false, step = 3600, top = 0, label = null, from = 0, to = 0 } = {}) {
  const total = (row) => (lines ? Math.max(...series.map((each) => each.value(row) || 0)) : sum(series, row));
  const highest = top || rows.reduce((most, row) => Math.max(most, total(row)), 0) || 1;
  const first = from || (rows.length ? rows[0].at : 0);
  const last = to || (rows.length ? rows.at(-1).at + step : 1);
  const x = (at) => LEFT + ((at - first) / (last - first || 1)) * (WIDTH - LEFT);
  const y = (value) => (HEIGHT - BOTTOM) * (1 - value / highest) + 4;
  const wide = Math.max(1.5, ((WIDTH - LEFT) * step) / (last - first || 1) - 1);
  const marks = lines ? drawLines(rows, series, (at) => x(at + step / 2), y) : drawColumns(rows, series, x, y, wide);
  const tips = rows.map((row) => s("rect", { class: "tip", x: x(row.at), y: 0, width: wide + 1, height: HEIGHT - BOTTOM },
    s("title", null, `${label ? label(row) : clock(row.at)}\n${series.map((each) => `${each.name}: ${format(each.value(row))}`).join("\n")}`)));
  const about = `${title}: ${rows.length} values, at most ${format(highest)}`;
  return h("figure", { class: "chart" },
    h("figcaption", null, h("strong", null, title), series.length > 1 &&
      series.map((each) => h("span", { class: `key ${each.kind}` }, each.name))),
    rows.length ? s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": about },
      grid(highest, format, y), marks, tips, label ? axis(label(rows[0]), label(rows.at(-1))) : timeAxis(first, last)) : h("p", { class: "empty" }, "nothing yet"));
}

const sum = (series, row) => series.reduce((total, each) => total + (each.value(row) || 0), 0);

function drawColumns(rows, series, x, y, width) {
  return rows.flatMap((row) => {
    let below = 0;
    return series.map((each) => {
      const value = each.value(row) || 0;
      const bottom = y(below);
      below += value;
      return value > 0 && s("rect", { class: each.kind, x: x(row.at), y: y(below), width, height: Math.max(0.5, bottom - y(below)) });
    });
  });
}

function drawLines(rows, series, x, y) {
  return series.map((each) => {
    const points = rows.filter((row) => Number.isFinite(each.value(row)) && each.value(row) !== null);
    const path = points.map((row, number) => `${number ? "L" : "M"}${x(row.at).toFixed(1)} ${y(each.value(row)).toFixed(1)}`).join("");
    return [s("path", { class: `line ${each.kind}`, d: path }),
      points.length < 60 && points.map((row) => s("circle", { class: each.kind, cx: x(row.at), cy: y(each.value(row)), r: 2.5 }))];
  });
}

function grid(highest, format, y) {
  return [0, 0.5, 1].map((share) => [
    s("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(share * highest), y2: y(share * highest) }),
    s("text", { x: LEFT - 6, y: y(share * highest) + 4, "text-anchor": "end" }, format(share * highest)),
  ]);
}

function timeAxis(first, last) {
  const write = last - first > 172800 ? day : clock;
  return axis(write(first), write(last));
}

const axis = (first, last) => [
  s("text", { x: LEFT, y: HEIGHT - 2 }, first),
  s("text", { x: WIDTH, y: HEIGHT - 2, "text-anchor": "end" }, last),
];

const LANE = 26;
/** Seconds. A longer pause between two turns is drawn as long as this. */
const PAUSE = 20;

/** The lanes of a session: one for the main agent, one per sub-agent; a bar per turn, ticks for tool calls. */
export function lanes(turns, address, describe) {
  const ordered = [...turns].sort((one, other) => one.started - other.started);
  const names = [...new Set(["", ...ordered.map((turn) => turn.sub_agent)])];
  const place = compress(ordered);
  const end = Math.max(1, ...ordered.map((turn) => place(turn.started + turn.seconds)));
  const width = 1100, left = 120;
  const x = (at) => left + (place(at) / end) * (width - left - 8);
  const bars = ordered.map((turn) => {
    const top = 4 + names.indexOf(turn.sub_agent) * LANE;
    const from = x(turn.started), to = Math.max(from + 2.5, x(turn.started + turn.seconds));
    const ticks = Array.from({ length: Math.min(turn.tools, 12) }, (_, number) =>
      s("rect", { class: "tick", x: to - 2 - number * 3, y: top + 13, width: 1.5, height: 5 }));
    return s("a", { href: address(turn), tabindex: -1 }, s("rect", { class: `turn ${judge(turn)}`, x: from, y: top, width: to - from, height: 18, rx: 2 }),
      ticks, s("title", null, describe(turn)));
  });
  const height = names.length * LANE + 6;
  return s("svg", { class: "lanes", viewBox: `0 0 ${width} ${height}`, role: "group",
    "aria-label": `${ordered.length} turns in ${names.length} lanes; the list below has the same turns` },
    names.map((name, row) => [
      s("text", { x: 8, y: row * LANE + 17 }, name ? name.slice(0, 15) : "main"),
      s("line", { class: "grid", x1: left, x2: width, y1: row * LANE + 25, y2: row * LANE + 25 })]), bars);
}

/** Maps times to positions on an axis on which long pauses are short. */
function compress(ordered) {
  const marks = [];
  let end = -Infinity, shift = 0;
  for (const turn of ordered) {
    if (turn.started > end + PAUSE) shift = end === -Infinity ? turn.started : shift + turn.started - end - PAUSE;
    marks.push([turn.started, shift]);
    end = Math.max(end, turn.started + turn.seconds);
  }
  return (at) => {
    let low = 0, high = marks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (marks[middle][0] <= at) low = middle;
      else high = middle - 1;
    }
    return at - (marks[low]?.[1] ?? 0);
  };
}

/** The colour of a turn: failed, changed by the gateway, retried, or fine. */
export function judge(turn) {
  if (turn.ending === "failed" || turn.ending === "truncated" || turn.status >= 400) return "bad";
  if (turn.ending === "cancelled") return "idle";
  return turn.interventions || turn.tries > 1 ? "warn" : "ok";
}
