// One turn: what happened, and four panes: client request → upstream request, upstream reply → client reply.

import { find, get, recordPath } from "./api.js";
import { badge, cacheShare, clock, count, dollars, factList, h, heading, link, meter, percent, put, short, span, table } from "./dom.js";
import { jsonTree, summarise } from "./json.js";
import { Screen, part } from "./screen.js";
import { state } from "./turns.js";

/** Events that are drawn at once. */
const STEP = 400;

const CONTENTS = { system: "system", tools: "tools", user: "messages of the user", answers: "answers of the model", results: "results of tools" };

class TurnScreen extends Screen {
  async load() {
    const [session, number] = this.route.rest;
    this.path = recordPath("sessions", session, "turns", number);
    const turn = await get(this.path, {}, this.signal);
    this.turn = turn;
    const round = this.route.query.round ?? "";
    const context = h("div"), requests = h("div"), replies = h("div");
    put(this,
      heading(`Turn ${turn.number}`, state(turn), this.steps(), h("a", { href: link("session", turn.session) }, "session"),
        h("a", { href: link("routes", { session: turn.session, number: turn.number }) }, "why this route")),
      facts(turn), turn.error && h("p", { class: "problem" }, turn.error), attempts(turn), interventions(turn), losses(turn),
      context, this.rounds(turn, round), requests, replies, headers(turn));
    if (!turn.parts.length) {
      return requests.replaceChildren(h("p", { class: "empty" }, 'Contents are not recorded. Set record = "bodies" to see requests and replies.'));
    }
    await Promise.all([
      part(context, () => this.buildContext()),
      part(requests, () => this.buildRequests(round)),
      part(replies, () => this.buildReplies(round)),
    ]);
  }

  /** Open the next or the previous turn of the session. */
  step(by) {
    const number = this.turn.number + by;
    if (number >= 1) location.hash = link("turn", this.turn.session, number);
  }

  steps() {
    return h("span", { class: "steps" },
      h("button", { type: "button", class: "plain", "aria-label": "Previous turn", onclick: () => this.step(-1) }, "←"),
      h("button", { type: "button", class: "plain", "aria-label": "Next turn", onclick: () => this.step(1) }, "→"));
  }

  rounds(turn, round) {
    if (turn.calls.length < 2) return "";
    return h("p", { class: "choices" }, "Requests upstream: ", turn.calls.map((call, index) =>
      h("a", { href: link("turn", turn.session, turn.number, { round: String(index) }), "aria-current": String(index) === (round || String(turn.calls.length - 1)) ? "true" : null },
        `${index + 1}. ${call.target} ${call.status || ""}`)));
  }

  /** The estimated tokens of the client's request, by kind of content. */
  async buildContext() {
    const use = await find(`${this.path}/context`, {}, this.signal);
    if (!use) return "";
    const columns = [["content", ""], ["tokens", "number"], ["share of the prompt", ""], use.window && ["share of the window", ""]].filter(Boolean);
    const row = (name, tokens) => ({ cells: [name, count(tokens), ...[use.total, use.window].filter(Boolean).map((whole) => meter(tokens / whole, percent(tokens / whole)))] });
    return [h("h2", null, "What fills the context window"),
      table("Context window", columns, [...Object.entries(use.parts).map(([kind, tokens]) => row(CONTENTS[kind] ?? kind, tokens)), row("all", use.total)]),
      h("p", { class: "note" }, use.window ? `Estimated. The window of the model has ${count(use.window)} tokens.` : "Estimated. The window of the model is unknown.")];
  }

  async buildRequests(round) {
    const [client, upstream, changes] = await Promise.all([
      find(`${this.path}/parts/client_request`, {}, this.signal),
      find(`${this.path}/parts/upstream_request`, { round }, this.signal),
      find(`${this.path}/changes`, { round }, this.signal),
    ]);
    const differences = changes?.differences ?? [];
    const marks = new Map(differences.map((each) => [each.path, each]));
    const none = new Map();
    const panes = h("div", { class: "panes" },
      pane("client-request", `Client request, ${this.turn.client}`, client, client && jsonTree(client.json, marks)),
      pane("upstream-request", `Upstream request, ${this.turn.upstream || "none"}`, upstream,
        upstream && jsonTree(upstream.json, changes?.is_translated ? none : marks)));
    return [h("h2", null, "Request: client → upstream"), differenceTable(changes, panes), panes];
  }

  async buildReplies(round) {
    const [upstream, client] = await Promise.all([
      find(`${this.path}/parts/upstream_reply`, { round }, this.signal),
      find(`${this.path}/parts/client_reply`, {}, this.signal),
    ]);
    const rows = align(upstream?.events ?? [], client?.events ?? []);
    const body = h("tbody");
    const changed = new Set(this.turn.intervention_list.map((each) => each.tool).filter(Boolean));
    const more = h("button", { type: "button", class: "plain" });
    let shown = 0;
    const show = () => {
      body.append(...rows.slice(shown, (shown += STEP)).map((row) => eventRow(row, changed)));
      more.textContent = `show ${Math.min(STEP, rows.length - shown)} of ${rows.length - shown} more`;
      more.hidden = shown >= rows.length;
    };
    more.addEventListener("click", show);
    show();
    const side = (title, found) => h("th", { scope: "col" }, title, found && h("small", null, ` ${found.events.length} events, ${count(found.size)}B`));
    return [h("h2", null, "Reply: upstream → client"),
      rows.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Events of both replies" }, h("table", { class: "events", "aria-label": "Events of both replies" },
        h("thead", null, h("tr", null, h("th", { scope: "col", class: "number" }, "ms"), side(`Upstream reply, ${this.turn.upstream || "none"}`, upstream), side(`Client reply, ${this.turn.client}`, client))), body))
        : h("p", { class: "empty" }, "no reply is recorded"), more];
  }
}

function pane(id, title, found, content) {
  return h("section", { class: "pane", id, "aria-label": title }, h("h3", null, title, found && h("small", null, ` ${count(found.size)}B`)),
    content || h("p", { class: "empty" }, "not recorded"));
}

/** Rows of one time, one upstream event, and the client events that came before the next upstream event. */
export function align(upstream, client) {
  const rows = [];
  let position = 0;
  const take = (until) => {
    const from = position;
    while (position < client.length && client[position].at < until) position += 1;
    return client.slice(from, position);
  };
  const early = take(upstream[0]?.at ?? Infinity);
  if (early.length) rows.push({ at: early[0].at, upstream: null, client: early });
  upstream.forEach((event, index) => {
    rows.push({ at: event.at, upstream: event, client: take(upstream[index + 1]?.at ?? Infinity) });
  });
  return rows;
}

function eventRow(row, changed) {
  return h("tr", null, h("td", { class: "number" }, row.at), h("td", null, row.upstream && eventLine(row.upstream, new Set())),
    h("td", null, row.client.map((event) => eventLine(event, changed, row.at))));
}

function eventLine(event, changed, base = event.at) {
  const [kind, text] = summarise(event);
  const names = [...changed].some((tool) => text.includes(tool));
  const late = event.at - base;
  const details = h("details", { class: names ? "event changed" : "event", ontoggle: () => {
    if (details.open && details.childElementCount === 1) details.append(jsonTree(event.data));
  } }, h("summary", null, h("b", null, kind), " ", short(text, 300), late > 50 && h("small", null, ` +${late} ms`)));
  return details;
}

const MISSING = h("i", null, "none");
const show = (value) => (value === null || value === undefined ? MISSING.cloneNode(true) : h("code", null, short(typeof value === "string" ? value : JSON.stringify(value), 400)));

function differenceTable(changes, panes) {
  if (!changes) return h("p", { class: "empty" }, "the requests cannot be compared");
  const note = changes.is_translated ? "The upstream uses another API: its request is translated back for the comparison, so paths are those of the client." : "";
  const reveal = (path) => () => {
    const place = [...panes.querySelectorAll("[data-path]")].find((each) => each.dataset.path === path);
    place?.scrollIntoView({ block: "center" });
    place?.classList.add("found");
  };
  const around = (value, position) => (typeof value === "string" && position > 60 ? `…${value.slice(position - 40)}` : value);
  return h("div", null, note && h("p", { class: "note" }, note), changes.problem && h("p", { class: "problem" }, changes.problem),
    table("Differences of the requests", [["path", ""], ["kind", ""], ["client", "wide"], ["upstream", "wide"], ["made by", ""]], changes.differences.slice(0, 300).map((each) => ({
      cells: [h("button", { type: "button", class: "plain path", onclick: reveal(each.path) }, each.path || "(all)"), badge(each.kind, { added: "ok", removed: "bad", changed: "warn" }[each.kind]),
        show(around(each.before, each.position)), show(around(each.after, each.position)), each.cause],
    })), "the meaning of the request is unchanged"));
}

function facts(turn) {
  const speed = turn.output && turn.seconds > turn.first_token ? turn.output / (turn.seconds - turn.first_token) : NaN;
  return factList([
    ["model → target", `${turn.model} → ${turn.target || "–"}`], ["APIs", `${turn.client} → ${turn.upstream || "–"}`], ["lane", turn.lane || "–"],
    ["route", turn.rule ? `rule ${turn.rule}, ${turn.route}` : turn.route || "–"], ["status", turn.status || "–"], ["started", clock(turn.started)],
    ["first token", span(turn.first_token)], ["duration", span(turn.seconds)], ["tokens/s", Number.isFinite(speed) ? count(speed) : "–"],
    ["tokens in", count(turn.input)], ["from the cache", percent(cacheShare(turn))], ["tokens out", count(turn.output)],
    turn.reasoning && ["reasoning", count(turn.reasoning)], ["cost", dollars(turn.cost)], ["tool calls", turn.tools],
    turn.sub_agent && ["sub-agent", turn.sub_agent], ["project", turn.project || "–"], turn.key && ["key", turn.key],
  ]);
}

function attempts(turn) {
  if (turn.attempts.length < 2 && !turn.attempts.some((each) => each.failure)) return "";
  return [h("h2", null, "Attempts"), table("Attempts", [["target", ""], ["began", "number"], ["ended", "number"], ["failure", "wide"], ["cooldown", ""]],
    turn.attempts.map((each) => ({ kind: each.failure ? "bad" : "", cells: [each.target, span(each.began) === "–" ? "0" : span(each.began), span(each.ended), text(each.failure), text(each.cools)] })))];
}

const text = (value) => (value === null || value === undefined || value === false || value === "" ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));

function interventions(turn) {
  if (!turn.intervention_list.length) return "";
  return [h("h2", null, "What happened to tool calls"), table("Changes of tool calls", [["kind", ""], ["tool", ""], ["detail", "wide"], ["bytes before", "number"], ["bytes after", "number"], ["held", "number"]],
    turn.intervention_list.map((each) => ({
      kind: each.ok ? "" : "bad",
      cells: [badge(`${each.phase} ${each.kind}`, !each.ok ? "bad" : each.kind === "hold" ? "" : "warn"), each.tool, [each.detail, each.reason].filter(Boolean).join("; "), each.before ? String(each.before) : "", each.after ? String(each.after) : "",
        each.held_ms ? `${Math.round(each.held_ms)} ms` : ""],
    })))];
}

function losses(turn) {
  if (!turn.loss_list.length) return "";
  return [h("h2", null, "Losses"), table("Losses", [["path", ""], ["reason", "wide"]], turn.loss_list.map((each) => ({ cells: [h("code", null, each.path || "–"), each.reason] })))];
}

function headers(turn) {
  const list = (title, values) => h("section", { class: "pane", "aria-label": title }, h("h3", null, title), table(title, [["name", ""], ["value", "wide"]],
    Object.entries(values ?? {}).map(([name, value]) => ({ cells: [name, String(value)] })), "none"));
  return h("details", null, h("summary", null, "Headers"), h("div", { class: "panes" }, list("Headers of the client's request", turn.request_headers),
    list("Headers of the client's reply", turn.reply_headers), turn.calls.map((call, index) => list(`Headers of upstream reply ${index + 1}`, call.headers))));
}

customElements.define("turn-screen", TurnScreen);
