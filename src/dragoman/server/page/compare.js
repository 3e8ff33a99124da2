// What can be done with recorded sessions: compare two, replay one, fork it, try the prompt rules on a turn.

import { get, recordPath } from "./api.js";
import { badge, factList, h, heading, link, short, table } from "./dom.js";
import { Screen, part } from "./screen.js";

const KINDS = { added: "ok", removed: "bad", changed: "warn" };
const PARTED = {
  reply: "The model answered differently to equal requests.",
  request: "After equal replies, the agent or the result of a tool differs.",
  end: "One session ends here.",
};

const show = (value) => (value === null || value === undefined ? h("i", null, "none") : h("code", null, short(typeof value === "string" ? value : JSON.stringify(value), 400)));
const around = (value, position) => (typeof value === "string" && position > 60 ? `…${value.slice(position - 40)}` : value);

function differences(label, list, empty) {
  return table(label, [["path", ""], ["kind", ""], ["before", "wide"], ["after", "wide"]], list.slice(0, 200).map((each) => ({
    cells: [h("code", null, each.path || "(all)"), badge(each.kind, KINDS[each.kind]), show(around(each.before, each.position)), show(around(each.after, each.position))],
  })), empty);
}

const field = (label, attributes) => h("label", { class: "field" }, label, " ", h("input", { spellcheck: "false", autocomplete: "off", ...attributes }));

/** A form that opens the comparison of two sessions. */
function compareForm(first, second, sessions) {
  const names = h("datalist", { id: "sessions" }, sessions.map((each) => h("option", { value: each.session }, `${each.agent} ${each.project}`)));
  const form = h("form", { class: "filter", onsubmit: (event) => {
    event.preventDefault();
    const [one, two] = [...form.querySelectorAll("input")].map((each) => each.value.trim());
    if (one && two) location.hash = link("compare", one, two);
  } }, field("session", { name: "first", value: first, list: "sessions" }), field("with", { name: "second", value: second, list: "sessions" }), names, h("button", { type: "submit" }, "Compare"));
  return form;
}

const turnLink = (session, number) => (number ? h("a", { href: link("turn", session, number) }, `turn ${number}`) : h("i", null, "none"));

class CompareScreen extends Screen {
  async load() {
    const [first = "", second = ""] = this.route.rest;
    const { sessions } = await get("/records/sessions", { limit: 200 }, this.signal);
    const result = h("div");
    this.replaceChildren(heading("Two sessions"), compareForm(first, second, sessions), result);
    if (!first || !second) return;
    await part(result, async () => {
      const { pairs, divergence } = await get("/records/comparison", { first, second }, this.signal);
      const parted = divergence === null ? [h("p", { class: "note" }, "The sessions are equal.")] : [
        factList([["they part at", turnLink(first, divergence.first)], ["of the other session", turnLink(second, divergence.second)]]),
        h("p", { class: "note" }, divergence.kind === "request" && divergence.first === 1 ? "The first requests differ." : PARTED[divergence.kind]),
        differences("Differences of the turn where they part", divergence.differences, "no difference to show"),
      ];
      return [h("h2", null, "Where they part"), ...parted, h("h2", null, "Turn by turn"),
        table("Turns of both sessions", [["first", ""], ["second", ""], ["requests", ""], ["replies", ""], ["first difference", "wide"]], pairs.map((pair) => ({
          cells: [turnLink(first, pair.first), turnLink(second, pair.second),
            !pair.first || !pair.second ? "" : badge(pair.request.length ? `${pair.request.length} differ` : "equal", pair.request.length ? "warn" : "ok"),
            !pair.first || !pair.second ? "" : badge(pair.is_reply_equal ? "equal" : "differ", pair.is_reply_equal ? "ok" : "warn"),
            h("code", null, short(pair.request[0]?.path ?? "", 120))],
        })), 'there are no contents: record = "bodies"')];
    });
  }
}

/** A word of a command line of a POSIX shell. */
const word = (text) => (/^[\w.@:/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The actions on one session. Replay and fork start an agent, so the page shows their commands. */
export function sessionActions(session, last, signal) {
  const id = session.session;
  const agent = { "claude-code": " claude", codex: " codex", "gemini-cli": " gemini", opencode: " opencode" }[session.agent] ?? "";
  const at = field("from turn", { name: "at", type: "number", min: 1, max: last, value: last });
  const model = field("with model", { name: "model", value: session.models[0] ?? "" });
  const fork = h("code", { id: "fork" });
  const write = () => {
    const [turn, name] = [at, model].map((each) => each.querySelector("input").value.trim());
    fork.textContent = `dragoman fork ${word(id)} --at ${Number(turn) || 1} --model ${word(name || "MODEL")}${agent}`;
  };
  [at, model].forEach((each) => each.addEventListener("input", write));
  write();
  const number = field("turn", { name: "turn", type: "number", min: 1, max: last, value: last });
  const preview = h("div", { id: "preview" });
  const attempt = h("form", { class: "filter", onsubmit: (event) => {
    event.preventDefault();
    part(preview, async () => {
      const found = await get(`${recordPath("sessions", id, "turns", number.querySelector("input").value)}/prompts`, {}, signal);
      return [h("p", { class: "note" }, found.rules.length ? `Rules that apply: ${found.rules.join(", ")}` : "No prompt rule applies to this request."),
        found.broken && h("p", { class: "problem" }, `The prompt no longer begins like that of the turn before: ${found.broken.path}`),
        differences("What the prompt rules change", found.differences, "the request stays as it is")].filter(Boolean);
    });
  } }, number, h("button", { type: "submit" }, "Try the prompt rules"));
  return h("details", { id: "actions" }, h("summary", null, "Replay, fork, compare, try prompt rules"),
    h("h2", null, "Replay"), h("p", null, "Serves the recorded replies to the agent, offline, and reports where it deviates:"), h("p", null, h("code", { id: "replay" }, `dragoman replay ${word(id)}${agent}`)),
    h("h2", null, "Fork"), h("p", null, "Continues from a turn on with another model:"), h("div", { class: "filter" }, at, model), h("p", null, fork),
    h("h2", null, "Compare"), compareForm(id, "", []),
    h("h2", null, "Prompt rules"), attempt, preview);
}

customElements.define("compare-screen", CompareScreen);
