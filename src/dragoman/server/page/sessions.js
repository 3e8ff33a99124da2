// Sessions, and one session: its lanes, its bars and its turns.

import { find, get, recordPath, send } from "./api.js";
import { chart, lanes } from "./charts.js";
import { sessionActions } from "./compare.js";
import { badge, cacheShare, clock, count, dollars, factList, h, heading, link, meter, percent, put, short, span, table, tableRow } from "./dom.js";
import { Screen, calm, part } from "./screen.js";
import { TURN_COLUMNS, turnAddress, turnRow, turnTable } from "./turns.js";

const PAGE = 200;

const COLUMNS = [
  ["last turn", ""], ["agent", ""], ["project", "wide"], ["models", "wide"], ["turns", "number"], ["tokens in", "number"],
  ["cache", ""], ["out", "number"], ["cost", "number"], ["notes", "wide"],
];

/** The field of a filter. The filter is part of the address, so that a link shows the same rows. */
export function filterField(value, open) {
  const field = h("input", { type: "search", name: "filter", value, placeholder: "agent:codex cost>0.10 failed", "aria-label": "Filter", spellcheck: "false", autocomplete: "off" });
  return h("form", { class: "filter", role: "search", onsubmit: (event) => {
    event.preventDefault();
    open(field.value.trim());
  } }, field, h("button", { type: "submit" }, "Filter"));
}

/** Adds rows when the end of the list comes into view. `fetchPage` returns rows, none at the end. */
function growing(body, columns, build, fetchPage, signal) {
  const end = h("div", { class: "end" });
  let busy = false;
  const watch = new IntersectionObserver(async ([entry]) => {
    if (!entry.isIntersecting || busy) return;
    busy = true;
    const rows = await fetchPage().catch(() => []);
    body.append(...rows.map((row) => tableRow(columns, build(row))));
    busy = false;
    if (!rows.length) return watch.disconnect();
    watch.unobserve(end);
    watch.observe(end);
  }, { rootMargin: "600px" });
  watch.observe(end);
  signal.addEventListener("abort", () => watch.disconnect());
  return end;
}

class SessionsScreen extends Screen {
  async load() {
    const filter = this.route.query.filter ?? "";
    const list = h("div");
    this.replaceChildren(heading("Sessions", filterField(filter, (value) => { location.hash = link("sessions", { filter: value }); })), list);
    const read = (before) => get("/records/sessions", { filter, limit: PAGE, before }, this.signal).then(({ sessions }) => sessions);
    const show = () => part(list, async () => {
      const sessions = await read();
      let last = sessions.at(-1);
      const shown = table("Sessions", COLUMNS, sessions.map(sessionRow), filter ? "no session matches" : "no session is recorded yet");
      const body = shown.querySelector("tbody");
      return !body || sessions.length < PAGE ? shown : [shown, growing(body, COLUMNS, sessionRow, async () => {
        const rows = await read(last.updated);
        last = rows.at(-1) ?? last;
        return rows;
      }, this.signal)];
    });
    await show();
    this.listen("again", show);
    this.listen("turn", calm(() => {
      if (scrollY < 200 && !list.contains(document.activeElement)) show();
    }, 1500));
  }
}

function sessionRow(session) {
  const share = cacheShare(session);
  return {
    href: link("session", session.session),
    kind: session.failed ? "warn" : "ok",
    cells: [
      clock(session.updated), [session.agent || "unknown", " ", h("small", null, session.version)], short(session.project || session.session, 60),
      short(session.models.join(", "), 60), count(session.turns), count(session.input),
      Number.isFinite(share) ? meter(share, percent(share), "cache") : "–", count(session.output), dollars(session.cost),
      [session.sub_agents > 0 && badge(`${session.sub_agents} sub-agents`), session.interventions > 0 && badge(`${session.interventions} changed`, "warn"),
        session.failed > 0 && badge(`${session.failed} failed`, "bad"), session.retried > 0 && badge(`${session.retried} retried`, "warn")],
    ],
  };
}

class SessionScreen extends Screen {
  async load() {
    const [id] = this.route.rest;
    const filter = this.route.query.filter ?? "";
    const path = recordPath("sessions", id);
    const read = (after) => get(path, { filter, after, limit: PAGE * 5, latest: 1 }, this.signal);
    const session = await read();
    this.turns = session.list;
    const list = h("div", null, turnTable(session.list, "no turn matches"));
    const body = list.querySelector("tbody");
    let last = session.list.at(-1)?.id;
    const end = body && session.list.length === PAGE * 5 && growing(body, TURN_COLUMNS, turnRow, async () => {
      const rows = (await read(last)).list;
      last = rows.at(-1)?.id;
      return rows;
    }, this.signal);
    this.sums = h("div");
    this.drawings = h("div");
    this.losses = h("div");
    this.cache = h("details", { ontoggle: () => this.cache.open && this.showCache(path) }, h("summary", null, "What the prompt cache did"), h("div"));
    const field = filterField(filter, (value) => { location.hash = link("session", id, { filter: value }); });
    const remove = h("button", { type: "button", class: "plain", onclick: () => this.deleteSession(path, id) }, "Delete the session");
    this.replaceChildren(heading(session.agent ? `Session of ${session.agent}` : "Session", field), this.sums, this.drawings, this.losses, this.cache, sessionActions(session, session.list[0]?.number ?? session.turns, this.signal), h("h2", null, "Turns, the latest first"), list, ...(end ? [end] : []), remove);
    this.draw(session);
    const refresh = calm(async () => {
      const fresh = await find(path, { filter, limit: PAGE * 5, latest: 1 }, this.signal).catch(() => null);
      if (!fresh) return;
      const known = this.turns[0]?.id ?? 0;
      const rows = fresh.list.filter((turn) => turn.id > known);
      this.turns = [...rows, ...this.turns];
      if (!list.querySelector("tbody")) list.replaceChildren(turnTable(rows, ""));
      else list.querySelector("tbody").prepend(...rows.map((turn) => tableRow(TURN_COLUMNS, turnRow(turn))));
      this.draw(fresh);
    }, 700);
    this.listen("turn", (turn) => turn.session === session.session && refresh());
    this.listen("again", refresh);
  }

  draw(session) {
    this.sums.replaceChildren(factList([
      ["project", session.project || "–"], ["models", session.models.join(", ")], ["targets", session.targets.join(", ")],
      ["turns", count(session.turns)], ["from", clock(session.started)], ["to", clock(session.updated)],
      ["tokens in", count(session.input)], ["from the cache", percent(cacheShare(session))], ["tokens out", count(session.output)],
      ["cost", dollars(session.cost)], session.saved !== null && ["saved by the cache", dollars(session.saved)], ["tool calls", count(session.tools)], session.key && ["key", session.key],
      ["id", h("code", null, session.session)],
    ]));
    put(this.losses, lossTable(session));
    const turns = this.turns.slice(0, PAGE * 5);
    const rows = [...turns].reverse().slice(-150).map((turn, at) => ({ ...turn, at, shown: turn.number }));
    const options = { step: 1, label: (row) => `turn ${row.shown}` };
    this.drawings.replaceChildren(
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Lanes" }, lanes(turns, turnAddress, describe)),
      h("div", { class: "charts" },
        chart("tokens of the prompt, by turn", rows, [
          { name: "from the cache", kind: "cache", value: (row) => row.cache_read ?? 0 },
          { name: "not from the cache", kind: "input", value: (row) => (row.input ?? 0) - (row.cache_read ?? 0) },
        ], count, options),
        chart("cost, by turn", rows, [{ name: "cost", kind: "cost", value: (row) => row.cost ?? 0 }], dollars, options)));
  }

  showCache(path) {
    part(this.cache.lastElementChild, async () => {
      const { turns } = await get(`${path}/cache`, {}, this.signal);
      return table("Prompt cache", [["turn", "number"], ["prompt", "number"], ["cached", ""], ["lost", "number"], ["cost of it", "number"], ["cause", ""], ["first difference", "wide"]],
        turns.map((row) => ({
          href: link("turn", this.route.rest[0], row.number),
          cells: [row.number, count(row.input), row.cached === null ? "–" : meter(row.cached / row.input, percent(row.cached / row.input), "cache"),
            row.lost ? count(row.lost) : "", row.lost_cost ? dollars(row.lost_cost) : "",
            badge(row.cause, { hit: "ok", gateway: "bad", agent: "warn", route: "warn", expiry: "warn" }[row.cause]), breakText(row)],
        })), 'it needs contents: record = "bodies"');
    });
  }

  async deleteSession(path, id) {
    if (!confirm(`Delete the records of session ${id}?`)) return;
    await send("DELETE", path);
    location.hash = "#/sessions";
  }
}

const LOSS_COLUMNS = [["place", ""], ["reason", "wide"], ["turns", "number"], ["last turn", "number"], ["what to do", "wide"]];

/** What could not be translated. The place has `*` for each index of a list. */
function lossTable(session) {
  if (!session.loss_groups.length) return "";
  return [h("h2", null, "Losses"), table("Losses of the session", LOSS_COLUMNS, session.loss_groups.map((group) => ({
    cells: [h("code", null, short(group.path || "(the reply)", 200)), short(group.reason, 300), group.turns, h("a", { href: link("turn", session.session, group.last) }, group.last), group.advice],
  }))), h("p", { class: "note" }, "A route with strict = true refuses requests instead of losing something.")];
}

function breakText(row) {
  const found = row.upstream_break ?? row.client_break;
  const parts = [row.vendor, row.settings?.length && `changed: ${row.settings.join(", ")}`];
  if (found) parts.push(`${found.path} at character ${found.position}: ${short(String(found.before), 40)} → ${short(String(found.after), 40)}`);
  return parts.filter(Boolean).join("; ");
}

const describe = (turn) => `turn ${turn.number}, ${clock(turn.started)}, ${span(turn.seconds)}\n${turn.model} → ${turn.target}\n` +
  `${count(turn.input)} tokens in, ${count(turn.output)} out, ${dollars(turn.cost)}${turn.error ? `\n${turn.error}` : ""}`;

customElements.define("sessions-screen", SessionsScreen);
customElements.define("session-screen", SessionScreen);
