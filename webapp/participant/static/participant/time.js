// The time of a chat: when it can be rated, and when it ends. The server sends the seconds left, so a wrong device
// clock does not matter. Participants see a discreet line near the end, never a ticking clock.

import { byId, plural } from "./page.js";

const SOON_S = 120; // from here on the page shows the time left
const LOOK_MS = 1000;

export class ChatTime {
  #limits = {};
  #began = null;
  #shown = "";

  // Calls `onChange()` when the available actions or texts change.
  constructor(words, onChange) {
    this.words = words;
    setInterval(() => {
      if (this.#state !== this.#shown) onChange();
    }, LOOK_MS);
  }

  // A `history` frame, with the seconds left if the study limits the time.
  history({ time }) {
    if (!time) return;
    this.#limits = { least: time.least_s, most: time.most_s };
    this.#began = time.runs ? performance.now() : null;
  }

  // The first message is stored.
  begin() {
    this.#began ??= performance.now();
  }

  #left(name) {
    const passed = this.#began === null ? 0 : (performance.now() - this.#began) / 1000;
    return (this.#limits[name] ?? (name === "most" ? Infinity : 0)) - passed;
  }

  get isOver() {
    return this.#left("most") <= 0;
  }

  // Minutes until the chat can be rated, or 0.
  get leastMinutes() {
    return Math.max(0, Math.ceil(this.#left("least") / 60));
  }

  // True if `n` answered messages are enough by now; without time limits the server decides.
  isEnough(n, nMin, nMax) {
    if (this.isOver) return n > 0;
    return n >= nMax || (n >= nMin && !this.leastMinutes);
  }

  get isLimited() {
    return Object.keys(this.#limits).length > 0;
  }

  get #state() {
    return `${this.leastMinutes} ${this.text}`;
  }

  get text() {
    const left = this.#left("most");
    if (left <= 0) return this.words.time_over;
    if (left > SOON_S) return "";
    return left > 60 ? plural(this.words.time_left, 2) : this.words.time_short;
  }

  show() {
    const line = byId("time-left");
    if (line.textContent !== this.text) line.textContent = this.text;
    this.#shown = this.#state;
  }
}
