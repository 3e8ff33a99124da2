// Now: the open exchanges, the sums of today, and the latest turns.

import { get, live } from "./api.js";
import { badge, cacheShare, count, dollars, factList, h, heading, link, percent, span, tableRow } from "./dom.js";
import { Screen, calm, part } from "./screen.js";
import { TURN_COLUMNS, turnRow, turnTable } from "./turns.js";

const SHOWN = 50;

class NowScreen extends Screen {
  async load() {
    this.sums = h("div");
    this.warnings = h("div");
    this.open = h("div", { "aria-live": "off" });
    this.turns = h("div", null, await this.readTurns());
    this.replaceChildren(heading("Now"), this.warnings, this.sums, h("h2", null, "Open exchanges"), this.open, h("h2", null, "Latest turns"), this.turns);
    this.showOpen(live.exchanges);
    this.showSums();
    this.listen("now", ({ exchanges }) => this.showOpen(exchanges));
    const refresh = calm(() => this.showSums(), 1500);
    this.listen("turn", (turn) => {
      this.addTurn(turn);
      refresh();
    });
    this.listen("again", () => {
      part(this.turns, () => this.readTurns());
      refresh();
    });
  }

  async readTurns() {
    const { turns } = await get("/records/turns", { limit: SHOWN }, this.signal);
    return turnTable(turns, "no turn is recorded yet: connect an agent, for example with `dragoman run claude`");
  }

  showOpen(exchanges) {
    this.open.replaceChildren(exchanges.length ? h("div", { class: "cards" }, exchanges.map(card)) : h("p", { class: "empty" }, "none"));
  }

  showSums() {
    const midnight = new Date().setHours(0, 0, 0, 0) / 1000;
    part(this.sums, async () => {
      const [row] = (await get("/records/sums", { filter: `started>=${midnight}` }, this.signal)).sums;
      return factList([
        ["cost today", dollars(row.cost ?? 0)], ["turns", count(row.turns)], ["tokens in", count(row.input ?? 0)],
        ["from the cache", percent(cacheShare(row))], ["tokens out", count(row.output ?? 0)],
        ["first token", span(row.first_token)], ["failed", count(row.failed ?? 0)],
        ["tool calls changed", count(row.interventions ?? 0)],
      ]);
    });
    part(this.warnings, async () => showWarnings(await get("/status", {}, this.signal)));
  }

  addTurn(turn) {
    const body = this.turns.querySelector("tbody");
    if (!body) return this.turns.replaceChildren(turnTable([turn], ""));
    const row = tableRow(TURN_COLUMNS, turnRow(turn));
    row.classList.add("new");
    body.prepend(row);
    while (body.rows.length > SHOWN) body.lastElementChild.remove();
  }
}

function card(exchange) {
  const state = exchange.first_token ? "answering" : exchange.tries > 1 ? `try ${exchange.tries}` : "waiting for the first token";
  const name = exchange.agent || exchange.client;
  return h("article", { class: "card" },
    h("h3", null, exchange.session ? h("a", { href: link("session", exchange.session) }, name) : name, exchange.sub_agent && badge("sub-agent")),
    h("p", null, exchange.model, " → ", exchange.target || "…"),
    h("p", null, badge(state, exchange.first_token ? "ok" : "warn"), " ", span(exchange.seconds)));
}

/** What an operator should know at once. */
export function showWarnings({ records, targets, config }) {
  const texts = [];
  if (config.error) texts.push(`The configuration file was refused: ${config.error}`);
  if (records.record === "off") texts.push("Nothing is recorded: records are off.");
  if (records.lost) texts.push(`${records.lost} exchanges were not recorded: ${records.error || "they came too fast"}.`);
  if (records.broken_prefixes) texts.push(`The gateway changed the beginning of ${records.broken_prefixes} prompts, so caches missed; the last: ${records.last_broken_prefix}.`);
  for (const target of targets) {
    if (target.obstacle) texts.push(`${target.target} cannot be used: ${target.obstacle}.`);
    for (const cooldown of target.cooldowns) texts.push(`${target.target} is tried last for ${span(cooldown.seconds)}: ${cooldown.reason}.`);
  }
  return texts.length ? h("ul", { class: "warnings" }, texts.map((text) => h("li", null, text))) : [];
}

customElements.define("now-screen", NowScreen);
