// The base of all screens: loads, shows a problem in its own place, and listens only while it is shown.

import { live } from "./api.js";
import { h } from "./dom.js";

export class Screen extends HTMLElement {
  route = { rest: [], query: {} };
  #abort = new AbortController();

  /** Ends the requests of a screen that is left. */
  get signal() {
    return this.#abort.signal;
  }

  async connectedCallback() {
    if (this.isConnected && !this.childElementCount) this.append(h("p", { class: "empty", role: "status" }, "loading …"));
    try {
      await this.load();
    } catch (error) {
      if (error.name !== "AbortError") this.replaceChildren(problem(error));
    }
  }

  disconnectedCallback() {
    this.#abort.abort();
  }

  /** Listen to the live stream until the screen is left. */
  listen(name, handle) {
    live.addEventListener(name, ({ detail }) => handle(detail), { signal: this.signal });
  }
}

export const problem = (error) => h("p", { class: "problem", role: "alert" }, error.message);

/** Show what `build` returns, or its error, in a place of its own, so that one failure hides nothing else. */
export async function part(place, build) {
  try {
    place.replaceChildren(...[await build()].flat());
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(problem(error));
  }
  return place;
}

/** Call a function at most once per frame of `milliseconds`, also for the last event. */
export function calm(work, milliseconds) {
  let timer = 0;
  return () => {
    timer ||= setTimeout(() => { timer = 0; work(); }, milliseconds);
  };
}
