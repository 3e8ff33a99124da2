// Models, Routes, Keys, Config and Doctor: what is configured and in which state it is.

import { get, send } from "./api.js";
import { badge, clock, count, factList, h, heading, link, meter, percent, put, span, table } from "./dom.js";
import { showWarnings } from "./now.js";
import { Screen, part } from "./screen.js";

const HEALTH = { ok: "ok", unused: "", unusable: "bad", failing: "bad" };

/** A form with one field that opens a screen with its value. */
function askFor(label, value, open) {
  const field = h("input", { type: "search", value, "aria-label": label, placeholder: label, spellcheck: "false", autocomplete: "off" });
  return h("form", { class: "filter", onsubmit: (event) => {
    event.preventDefault();
    open(field.value.trim());
  } }, field, h("button", { type: "submit" }, "Show"));
}

class ModelsScreen extends Screen {
  async load() {
    const model = this.route.query.model ?? "";
    const [models, status] = await Promise.all([get("/models", {}, this.signal), get("/status", {}, this.signal)]);
    const facts = h("div");
    this.replaceChildren(heading("Models", askFor("facts about a model name", model, (value) => { location.hash = link("models", { model: value }); })), facts,
      h("h2", null, "Targets"),
      table("Targets", [["target", "wide"], ["API", ""], ["state", ""], ["calls", "number"], ["failed", "number"], ["first token", "number"], ["notes", "wide"]], status.targets.map((each) => ({
        href: link("models", { model: each.target.endsWith("/*") ? "" : each.target }),
        cells: [each.target, each.dialect, badge(each.health, HEALTH[each.health] ?? "warn"), count(each.tries), count(each.failed), span(each.first_token),
          each.obstacle || each.cooldowns.map((cooldown) => `${cooldown.reason}, tried last for ${span(cooldown.seconds)}`).join("; ") || each.last_failure],
      })), "no target"),
      h("h2", null, "Providers"),
      table("Providers", [["provider", ""], ["API", ""], ["address", "wide"], ["models", "wide"], ["problem", "wide"]], models.providers.map((each) => ({
        cells: [each.name, each.dialect, each.base_url || "this process", each.models.join(", ") || "any", each.obstacle],
      }))),
      h("h2", null, "Tool calls"),
      toolTable(status.tools));
    if (model) await part(facts, async () => factTables(await get("/facts", { model }, this.signal)));
  }
}

function factTables({ model, route, targets }) {
  const rows = (list) => list.map((each) => ({ cells: [each.name, h("code", null, JSON.stringify(each.value)), each.source,
    each.instead_of ? `not ${JSON.stringify(each.instead_of.value)} (${each.instead_of.source})` : ""] }));
  const columns = [["fact", ""], ["value", ""], ["source", "wide"], ["instead of", "wide"]];
  return [h("p", null, "The model name ", h("code", null, model), " takes the route ", h("code", null, route), "."), ...targets.map((each) => [
    h("h2", null, `Facts about ${each.target}`), table(`Facts about ${each.target}`, columns, rows(each.facts), "only the facts of its API are known"),
    h("h3", null, "Governance of tool calls"), table(`Governance of ${each.target}`, columns, rows(each.governance), "off")]).flat()];
}

function toolTable(tools) {
  const names = [...new Set(tools.flatMap((each) => Object.keys(each.counts).filter((name) => each.counts[name])))];
  return table("Tool calls by target", [["target", "wide"], ...names.map((name) => [name.replaceAll("_", " "), "number"])],
    tools.map((each) => ({ cells: [each.target, ...names.map((name) => each.counts[name] || "")] })), "no reply has been governed yet");
}

class RoutesScreen extends Screen {
  async load() {
    const { model = "", session = "", number = "" } = this.route.query;
    const models = await get("/models", {}, this.signal);
    const explained = h("div");
    this.replaceChildren(heading("Routes", askFor("explain a model name", model, (value) => { location.hash = link("routes", { model: value }); })), explained,
      h("h2", null, "Routes in their order"),
      table("Routes", [["model name", ""], ["targets", "wide"], ["kind", ""]], [
        ...models.routes.map((each) => ({ href: link("routes", { model: each.match }), cells: [each.match, each.targets.join(", else "), each.strict && badge("strict")] })),
        ...(models.routes.some((each) => each.match === "*") ? [] : [{ cells: ["anything else", models.default.join(", else ") || "refused, with status 404", ""] }]),
        ...models.providers.map((each) => ({ cells: [`${each.name}/MODEL`, `any model of ${each.base_url || "this process"}`, ""] })),
      ]));
    if (model || session) {
      await part(explained, async () => explanation(await get("/explain", session ? { session, number } : { model }, this.signal), session && { session, number }));
    }
  }
}

function explanation(found, turn) {
  return [h("h2", null, turn ? "Why turn " : "Why ", turn ? h("a", { href: link("turn", turn.session, turn.number) }, turn.number) : found.model, " goes there"),
    h("p", null, found.error ? found.error : found.answer ? "The gateway answers itself." : ["It goes to ", h("strong", null, found.targets.join(", else ")),
      found.rule ? ` by rule ${found.rule}` : " by no rule", `, route ${found.route}.`]),
    factList(Object.entries(found.traits)),
    table("Rules", [["rule", ""], ["holds", ""], ["reason", "wide"], ["result", "wide"]], found.rules.map((each) => ({
      cells: [each.rule, each.holds ? badge(each.rule === found.rule ? "wins" : "holds", "ok") : badge("no"), each.reason, each.result],
    })), "there are no rules")];
}

class KeysScreen extends Screen {
  async load() {
    const { keys, configured } = await get("/keys", {}, this.signal);
    const used = (key, period) => [`${count(key.used[period].tokens)} tokens, $${key.used[period].cost_usd.toFixed(2)}`];
    this.replaceChildren(heading("Keys"), h("p", null, configured ? `${configured} keys are in the configuration. ` : "", "Keys are made and changed with ", h("code", null, "dragoman keys"), "."),
      table("Client keys", [["name", ""], ["key", ""], ["state", ""], ["models", "wide"], ["limits", "wide"], ["today", ""], ["this month", ""], ["budget", ""]], keys.map((key) => ({
        href: link("spend", { filter: `key:"${key.name}"`, range: "month" }),
        cells: [key.name, h("code", null, `${key.prefix}…`), badge(key.state, key.state === "valid" ? "ok" : "bad"), key.models.join(" ") || "all", limits(key.limits), used(key, "day"), used(key, "month"), budget(key)],
      })), "there are no client keys: every program on this machine may use the gateway"));
  }
}

const limits = (values) => Object.entries(values).filter(([, value]) => value).map(([name, value]) =>
  `${name.startsWith("cost") ? `$${value}` : count(value)} ${name.replace("cost_", "").replaceAll("_", " ")}`).join(", ") || "none";

function budget({ limits: values, used }) {
  const shares = [["day", "cost_per_day", "cost_usd"], ["month", "cost_per_month", "cost_usd"], ["day", "tokens_per_day", "tokens"], ["month", "tokens_per_month", "tokens"]]
    .filter(([, limit]) => values[limit]).map(([period, limit, unit]) => used[period][unit] / values[limit]);
  const share = Math.max(...shares);
  return shares.length ? meter(share, percent(share), share >= 0.9 ? "bad" : "cost") : "–";
}

class ConfigScreen extends Screen {
  async load() {
    const [config, status] = await Promise.all([get("/config", {}, this.signal), get("/status", {}, this.signal)]);
    const result = h("p", { role: "status" });
    const reload = h("button", { type: "button", onclick: () => part(result, async () => {
      await send("POST", "/reload");
      return "The configuration is loaded again.";
    }) }, "Load the file again");
    const problems = [config.error, ...config.warnings.map((each) => `${each.message}${each.hint ? ` (${each.hint})` : ""}`)].filter(Boolean);
    this.replaceChildren(heading("Config", badge(config.error ? "refused" : problems.length ? "usable" : "fine", config.error ? "bad" : problems.length ? "warn" : "ok"), reload), result,
      factList([["file", config.path || "none: the embedded model answers"], ["loaded", clock(status.config.loaded_at)], ["reloads", status.config.reloads], ["refused", status.config.refused],
        config.needs_restart.length && ["needs a restart", config.needs_restart.join(", ")]]),
      problems.length ? h("ul", { class: "warnings" }, problems.map((text) => h("li", null, text))) : h("p", null, "The file has no mistakes and no warnings."),
      h("h2", null, "Effective values"), h("p", { class: "note" }, "Secrets are not shown. Edit the file; the gateway loads it when it changes."),
      h("pre", { tabindex: 0, class: "toml", role: "region", "aria-label": "Effective values" }, config.toml));
  }
}

const STATES = { works: "ok", helped: "ok", lacks: "", fails: "bad", skipped: "warn", unclear: "warn" };

class DoctorScreen extends Screen {
  async load() {
    const place = h("div", { role: "status" }, h("p", { class: "empty" }, "checking …"));
    const status = await get("/status", {}, this.signal);
    put(this, heading("Doctor"), showWarnings(status),
      factList([["version", status.gateway.version], ["process", status.gateway.process], ["running for", span(status.gateway.uptime)], ["open exchanges", status.exchanges.open],
        ["records", status.records.record], ["written", count(status.records.written)], ["lost", count(status.records.lost)]]),
      h("h2", null, "Checks of this installation"), place,
      h("p", { class: "note" }, "To test what a model can do: ", h("code", null, "dragoman doctor MODEL"), ". It sends about 16 small requests."));
    await part(place, async () => {
      const { endpoints } = await get("", {}, this.signal);
      const isOffered = endpoints.some((each) => each.path === "/admin/doctor");
      const report = isOffered ? await get("/doctor", {}, this.signal) : null;
      return table("Checks", [["state", ""], ["check", ""], ["detail", "wide"], ["what to do", "wide"]], (report?.findings ?? []).map((each) => ({
        kind: STATES[each.state], cells: [badge(each.state, STATES[each.state]), each.name, each.detail, each.advice],
      })), "run `dragoman doctor` in a terminal");
    });
  }
}

for (const [name, screen] of Object.entries({ models: ModelsScreen, routes: RoutesScreen, keys: KeysScreen, config: ConfigScreen, doctor: DoctorScreen })) {
  customElements.define(`${name}-screen`, screen);
}
