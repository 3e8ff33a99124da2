// Calls the admin API. The token lives in this module and in the tab's session storage, nowhere else.

const STORED = "dragoman.token";
let token = sessionStorage.getItem(STORED) ?? "";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const hasToken = () => Boolean(token);

/** Use another token from now on; an empty one signs out. */
export function setToken(value) {
  token = value;
  if (value) sessionStorage.setItem(STORED, value);
  else sessionStorage.removeItem(STORED);
  live.stop();
}

async function ask(path, options = {}) {
  const used = token;
  const headers = { authorization: `Bearer ${used}`, accept: "application/json" };
  let response;
  try {
    response = await fetch(`/admin${path}`, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The gateway does not answer.");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  const message = body.error?.message ?? `The gateway answered with status ${response.status}.`;
  // A late refusal of an earlier token says nothing about the present one.
  if (response.status === 401 && used === token) dispatchEvent(new Event("signed-out"));
  throw new ApiError(response.status, message);
}

/** The decoded answer of an endpoint. Empty values of `query` are left out. */
export async function get(path, query = {}, signal = undefined) {
  const values = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const text = values.length ? `?${new URLSearchParams(values)}` : "";
  return (await ask(path + text, { signal })).json();
}

export async function send(method, path) {
  return (await ask(path, { method })).json();
}

/** `get`, but null if there is no such thing. */
export async function find(path, query, signal) {
  try {
    return await get(path, query, signal);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

export const recordPath = (...parts) => `/records/${parts.map((part) => encodeURIComponent(part)).join("/")}`;

/** The live stream: events `turn`, `now`, `state`, and `again` after a lost connection. An EventSource could not send the token. */
class Live extends EventTarget {
  exchanges = [];
  state = "not connected";
  #abort = null;
  #delay = 500;
  #timer = 0;
  #isLost = false;

  start() {
    this.stop();
    this.#run();
  }

  stop() {
    this.#abort?.abort();
    clearTimeout(this.#timer);
    this.#delay = 500;
    this.#setState("not connected");
  }

  async #run() {
    const abort = (this.#abort = new AbortController());
    try {
      const response = await ask("/records/live", { signal: abort.signal });
      this.#setState("live");
      this.#delay = 500;
      // Turns that ended in between are in the records, and in no event.
      if (this.#isLost) this.dispatchEvent(new CustomEvent("again"));
      this.#isLost = false;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        events.forEach((event) => this.#receive(event));
      }
    } catch (error) {
      if (abort.signal.aborted || error.status === 401) return;
    }
    this.#isLost = true;
    this.#setState("connection lost, trying again");
    this.#timer = setTimeout(() => this.#run(), this.#delay);
    this.#delay = Math.min(this.#delay * 2, 15000);
  }

  #receive(text) {
    const fields = Object.fromEntries(text.split("\n").map((line) => line.split(/: (.*)/s, 2)));
    if (!fields.data) return;
    const detail = JSON.parse(fields.data);
    if (fields.event === "now") this.exchanges = detail.exchanges;
    this.dispatchEvent(new CustomEvent(fields.event, { detail }));
  }

  #setState(state) {
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}

export const live = new Live();
