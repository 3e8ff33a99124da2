// Spend: cost, tokens, latency and cache hits over time, and their sums by model, key, project and so on.

import { get } from "./api.js";
import { chart } from "./charts.js";
import { cacheShare, count, dollars, factList, h, heading, link, meter, percent, short, span, table } from "./dom.js";
import { Screen, calm, part } from "./screen.js";
import { filterField } from "./sessions.js";

/** The names of spans, with their seconds and the seconds of one column. */
const RANGES = { hour: [3600, 60], day: [86400, 1800], week: [604800, 14400], month: [2592000, 86400], all: [0, 86400] };
const GROUPS = ["model", "target", "agent", "key", "project", "route", "session", "ending"];

class SpendScreen extends Screen {
  async load() {
    const { range = "day", by = "model", filter = "" } = this.route.query;
    const open = (changes) => { location.hash = link("spend", { range, by, filter, ...changes }); };
    const content = h("div");
    this.replaceChildren(heading("Spend", filterField(filter, (value) => open({ filter: value }))),
      choices("Span of time", Object.keys(RANGES), range, (value) => ({ range: value, by, filter })),
      content);
    const show = () => part(content, () => this.build(range, by, filter));
    await show();
    this.listen("turn", calm(show, 5000));
  }

  async build(range, by, filter) {
    const [length, step] = RANGES[range] ?? RANGES.day;
    const now = Date.now() / 1000;
    const condition = [filter && `(${filter})`, length && `started>=${Math.floor(now - length)}`].filter(Boolean).join(" ");
    const ask = (query) => get("/records/sums", { filter: condition, ...query }, this.signal).then(({ sums }) => sums);
    const [[total], times, groups] = await Promise.all([ask({}), ask({ step }), ask({ by })]);
    const options = { step, ...(length && { from: Math.floor((now - length) / step) * step, to: now }) };
    return [
      factList([["cost", dollars(total.cost ?? 0)], total.saved !== null && ["saved by the cache", dollars(total.saved)], ["turns", count(total.turns)], ["tokens in", count(total.input ?? 0)], ["from the cache", percent(cacheShare(total))],
        ["tokens out", count(total.output ?? 0)], ["first token", span(total.first_token)], ["failed", count(total.failed ?? 0)], total.unpriced > 0 && ["turns without a price", count(total.unpriced)]]),
      h("div", { class: "charts" },
        chart("cost", times, [{ name: "cost", kind: "cost", value: (row) => row.cost ?? 0 }], dollars, options),
        chart("tokens", times, [
          { name: "from the cache", kind: "cache", value: (row) => row.cache_read ?? 0 },
          { name: "input", kind: "input", value: (row) => (row.input ?? 0) - (row.cache_read ?? 0) },
          { name: "output", kind: "output", value: (row) => row.output ?? 0 }], count, options),
        chart("latency", times, [
          { name: "first token, mean", kind: "input", value: (row) => row.first_token },
          { name: "whole turn, mean", kind: "output", value: (row) => row.seconds }], (value) => span(value).replace("–", "0"), { ...options, lines: true }),
        chart("cache hits", times, [{ name: "share of the prompt", kind: "cache", value: cacheShare }], percent, { ...options, lines: true, top: 1 })),
      choices("Sums by", GROUPS, by, (value) => ({ range, by: value, filter })),
      this.groupTable(groups, by, total),
    ];
  }

  groupTable(groups, by, total) {
    const columns = [[by, "wide"], ["cost", "number"], ["share", ""], ["turns", "number"], ["tokens in", "number"], ["cache", ""], ["out", "number"],
      ["first token", "number"], ["slowest", "number"], ["failed", "number"], ["retried", "number"]];
    const rows = [...groups].sort((one, other) => (other.cost ?? 0) - (one.cost ?? 0) || other.turns - one.turns).slice(0, 500);
    return table(`Sums by ${by}`, columns, rows.map((row) => {
      const share = cacheShare(row), part_ = (row.cost ?? 0) / (total.cost || 1);
      return {
        href: by === "session" ? link("session", row.name) : link("sessions", { filter: row.name && !row.name.includes('"') ? `${by}:"${row.name}"` : "" }),
        cells: [short(row.name || "(none)", 80), dollars(row.cost), meter(part_, percent(part_), "cost"), count(row.turns), count(row.input),
          Number.isFinite(share) ? meter(share, percent(share), "cache") : "–", count(row.output), span(row.first_token), span(row.slowest), row.failed || "", row.retried || ""],
      };
    }), "no turn in this span of time");
  }
}

function choices(label, names, chosen, query) {
  return h("p", { class: "choices", role: "group", "aria-label": label }, names.map((name) =>
    h("a", { href: link("spend", query(name)), "aria-current": name === chosen ? "true" : null }, name)));
}

customElements.define("spend-screen", SpendScreen);
