// Delivery of messages on every page with a chat, also while the connection is lost.

import { byId, plural } from "./page.js";
import { byHttp } from "./socket.js";

const LATE_AFTER_MS = 1500; // then an unacknowledged message is marked as waiting
const DEAD_AFTER_MS = 10000; // then a connection that acknowledges nothing is given up
const AGAIN_AFTER_MS = 3000; // then a message the server could not store is sent again
const BANNER_AFTER_MS = 800; // short interruptions show no banner
const NEVER_AFTER_MS = 5000; // the first connection takes longer

// To people who listen: `say` waits until they have heard the rest, `warn` does not.
export const say = (text) => {
  byId("status").textContent = text;
};
export const warn = (text) => {
  byId("alert").textContent = text;
};

// The words for an error frame; `nOver` is the number of excess characters in the box.
export function errorWords(words, { code, retry_after_s: waitS, message }, nOver) {
  if (code === "too_long" && nOver > 0) return plural(words.too_long, nOver);
  if (code === "too_fast") return plural(words.too_fast, Math.ceil(waitS ?? 1));
  const text = words[code];
  return typeof text === "string" ? text : message;
}

// Delivers the outbox's message: reports delays, abandons a dead connection, and retries.
export class Delivery {
  #late = 0;
  #dead = 0;
  #again = 0;

  // `send(message)` returns whether it was handed over; `onLate()` shows that it is waiting, `onDead()` restarts.
  constructor(outbox, { send, onLate, onDead }) {
    Object.assign(this, { outbox, send, onLate, onDead });
  }

  start() {
    this.stop();
    const { message } = this.outbox;
    if (!message) return;
    this.#late = setTimeout(() => {
      if (this.outbox.message) this.onLate();
    }, LATE_AFTER_MS);
    if (!this.send(message)) return;
    this.#dead = setTimeout(() => {
      if (this.outbox.holds(message.client_id)) this.onDead();
    }, DEAD_AFTER_MS);
  }

  // The server could not store it, or is not sure: the message waits and is sent again.
  again() {
    this.stop();
    this.onLate();
    this.#again = setTimeout(() => this.start(), AGAIN_AFTER_MS * (0.5 + Math.random()));
  }

  // The connection is lost: do not close it twice.
  lost() {
    clearTimeout(this.#dead);
  }

  // The server has the message.
  done() {
    this.stop();
    this.outbox.clear();
  }

  stop() {
    for (const timer of [this.#late, this.#dead, this.#again]) clearTimeout(timer);
  }
}

// The banner over a page whose connection is lost; of one that was never there, the page says what can be done.
// `onShow()` updates what depends on it.
export class LostBanner {
  #timer = 0;
  #wasLost = false;
  #wasHere = false;

  constructor(onShow) {
    this.onShow = onShow;
    this.lost();
  }

  lost() {
    if (this.#wasLost) return;
    this.#wasLost = true;
    this.#timer = setTimeout(() => this.#show(), this.#wasHere ? BANNER_AFTER_MS : NEVER_AFTER_MS);
  }

  #show() {
    byId("note")?.remove();
    byId("loading").hidden = true;
    if (this.#wasHere) byId("reconnecting").hidden = false;
    else document.documentElement.classList.add("unreached");
    say((this.#wasHere ? byId("reconnecting") : byId("unreached")).textContent.trim());
    this.onShow();
  }

  back(words) {
    clearTimeout(this.#timer);
    byId("reconnecting").hidden = true;
    for (const name of ["unreached", "by-http"]) document.documentElement.classList.toggle(name, byHttp());
    if (this.#wasLost && this.#wasHere) say(words.back);
    this.#wasLost = false;
    this.#wasHere = true;
  }
}
