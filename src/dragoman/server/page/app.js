// The frame of the page: sign-in, routes by the hash of the address, navigation, keyboard.

import { get, hasToken, live, setToken } from "./api.js";
import { h } from "./dom.js";
import "./now.js";
import "./sessions.js";
import "./turn.js";
import "./compare.js";
import "./spend.js";
import "./overview.js";

/** The screens of the navigation. The number keys open them in this order. */
const SCREENS = ["now", "sessions", "spend", "models", "routes", "keys", "config", "doctor"];
/** The element of each screen, by the first part of the hash. */
const ELEMENTS = { ...Object.fromEntries(SCREENS.map((name) => [name, `${name}-screen`])), session: "session-screen", turn: "turn-screen", compare: "compare-screen" };
/** The entry of the navigation that a deeper screen belongs to. */
const PARENTS = { session: "sessions", turn: "sessions", compare: "sessions" };
const TITLES = { now: "Now", sessions: "Sessions", spend: "Spend", models: "Models", routes: "Routes", keys: "Keys", config: "Config", doctor: "Doctor" };

const KEYS = [
  ["1 … 8", "open a screen"],
  ["j, k", "next, previous row"],
  ["Enter", "open the row"],
  ["Esc, u", "one level up"],
  ["[, ]", "previous, next turn"],
  ["/", "filter"],
  ["r", "load again"],
  ["?", "this list"],
];

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const pulse = document.getElementById("pulse");

nav.append(...SCREENS.map((name, number) =>
  h("a", { href: `#/${name}`, "data-screen": name, title: `Key ${number + 1}` }, TITLES[name])));
nav.append(h("button", { type: "button", class: "plain", title: "Keys of the keyboard", "aria-label": "Keys of the keyboard", onclick: () => showKeys() }, "?"));

function readRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [screen, ...rest] = path.split("/").map(decode);
  return { screen: screen || "now", rest, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function showRoute() {
  if (location.hash === "#main") return;
  if (!hasToken()) return showSignIn();
  const route = readRoute();
  const element = ELEMENTS[route.screen];
  const active = PARENTS[route.screen] ?? route.screen;
  for (const entry of nav.querySelectorAll("a")) {
    if (entry.dataset.screen === active) entry.setAttribute("aria-current", "page");
    else entry.removeAttribute("aria-current");
  }
  document.title = `${[TITLES[active] ?? "dragoman", ...route.rest].join(" ").slice(0, 60)} · dragoman`;
  if (!element) return main.replaceChildren(h("p", { class: "problem", role: "alert" }, "There is no such screen. Press 1 for the first."));
  const screen = document.createElement(element);
  screen.route = route;
  main.replaceChildren(screen);
  scrollTo(0, 0);
}

function showSignIn(message = "") {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, autofocus: true });
  const problem = h("p", { class: "problem", role: "alert" }, message);
  const form = h("form", { class: "sign-in", onsubmit: async (event) => {
    event.preventDefault();
    setToken(field.value.trim());
    field.value = "";
    try {
      await get("/status");
      live.start();
      showRoute();
    } catch (error) {
      if (error.status === 401) return;
      setToken("");
      problem.textContent = error.message;
    }
  } }, h("h1", null, "dragoman"),
  h("label", { for: "token" }, "Admin token"), field, problem,
  h("button", { type: "submit" }, "Open"),
  h("p", null, "The command ", h("code", null, "dragoman page"), " prints it. This tab keeps it until you close it."));
  main.replaceChildren(form);
  field.focus();
}

function showKeys() {
  const dialog = h("dialog", { "aria-label": "Keys of the keyboard", onclose: () => dialog.remove() },
    h("h2", null, "Keys"), h("table", null, h("tbody", null, KEYS.map(([key, about]) =>
      h("tr", null, h("td", null, h("kbd", null, key)), h("td", null, about))))),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
      h("button", { type: "button", class: "plain", onclick: () => { dialog.close(); setToken(""); showSignIn(); } }, "Sign out")));
  document.body.append(dialog);
  dialog.showModal();
}

/** Move the focus by rows. The first key selects the first row. */
function moveRow(step) {
  const rows = [...main.querySelectorAll("a.row")];
  const index = rows.indexOf(document.activeElement);
  const next = rows[Math.min(rows.length - 1, Math.max(0, index < 0 ? 0 : index + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function goUp() {
  const { screen, rest } = readRoute();
  if (screen === "turn") location.hash = `#/session/${encodeURIComponent(rest[0])}`;
  else if (screen === "session" || screen === "compare") location.hash = "#/sessions";
}

const ACTIONS = {
  j: () => moveRow(1),
  k: () => moveRow(-1),
  u: goUp,
  Escape: goUp,
  r: showRoute,
  "?": showKeys,
  "/": () => main.querySelector("input[type=search]")?.focus(),
  "[": () => main.firstElementChild?.step?.(-1),
  "]": () => main.firstElementChild?.step?.(1),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !hasToken() || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const number = Number(event.key);
  const action = number >= 1 && number <= SCREENS.length ? () => { location.hash = `#/${SCREENS[number - 1]}`; } : ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

addEventListener("hashchange", showRoute);
addEventListener("signed-out", () => {
  if (!hasToken()) return;
  setToken("");
  showSignIn("The gateway does not accept this token.");
});
live.addEventListener("state", ({ detail }) => {
  pulse.textContent = detail;
  pulse.className = detail === "live" ? "live" : "";
});

if (hasToken()) live.start();
showRoute();
