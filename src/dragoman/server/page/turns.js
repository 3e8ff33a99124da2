// The table of turns, which several screens show.

import { badge, cacheShare, clock, count, dollars, h, link, meter, percent, short, span, table } from "./dom.js";
import { judge } from "./charts.js";

export const TURN_COLUMNS = [
  ["time", ""], ["turn", "number"], ["agent", ""], ["model → target", "wide"], ["state", ""], ["tokens in", "number"], ["cache", ""],
  ["out", "number"], ["first", "number"], ["duration", "number"], ["cost", "number"], ["tools", "number"], ["notes", "wide"],
];

export const turnAddress = (turn) => link("turn", turn.session, turn.number);

export const turnTable = (turns, empty) => table("Turns", TURN_COLUMNS, turns.map(turnRow), empty);

export function turnRow(turn) {
  const share = cacheShare(turn);
  return {
    href: turnAddress(turn),
    kind: judge(turn),
    cells: [
      clock(turn.started),
      turn.number,
      [turn.agent || turn.client, turn.sub_agent && [" ", badge("sub")]],
      `${turn.model} → ${turn.target || "–"}`,
      state(turn),
      count(turn.input),
      Number.isFinite(share) ? meter(share, percent(share), "cache") : "–",
      count(turn.output),
      span(turn.first_token),
      span(turn.seconds),
      dollars(turn.cost),
      turn.tools || "",
      notes(turn),
    ],
  };
}

export function state(turn) {
  const verdict = judge(turn);
  const text = verdict === "bad" ? `${turn.ending === "finished" ? "failed" : turn.ending} ${turn.status >= 400 ? turn.status : ""}` : turn.ending;
  return badge(text.trim(), verdict === "warn" ? "ok" : verdict);
}

const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function notes(turn) {
  return [
    turn.interventions > 0 && badge(plural(turn.interventions, "change"), "warn"),
    turn.tries > 1 && badge(plural(turn.tries, "try").replace("trys", "tries"), "warn"),
    turn.losses > 0 && badge(plural(turn.losses, "loss").replace("losss", "losses")),
    turn.rule && badge(`rule ${turn.rule}`),
    turn.error && h("span", { class: "error" }, short(turn.error, 100)),
  ].filter(Boolean);
}
