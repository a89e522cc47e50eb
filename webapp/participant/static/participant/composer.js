// The message box: grows with its text, counts characters, and decides when Enter sends.

import { countChars, kept } from "./page.js";

const LINES_MAX_PX = 164;
const COUNT_FROM = 100;
const SEEN = /[^\p{White_Space}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800\ufffd]/u;

export class Composer {
  // `onSend()` is called for Enter and for the button; it decides whether anything is sent.
  constructor({ form, box, button, counter, limit, draftKey, onSend }) {
    Object.assign(this, { form, box, button, counter, limit, draftKey });
    this.composing = false;
    // On touch keyboards Enter inserts a line break, and the button sends.
    this.byTouch = matchMedia("(hover: none) and (pointer: coarse)");
    box.addEventListener("compositionstart", () => {
      this.composing = true;
    });
    box.addEventListener("compositionend", () => {
      // Safari reports the Enter that ends a composition after its end.
      setTimeout(() => {
        this.composing = false;
      }, 0);
    });
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || this.byTouch.matches) return;
      if (event.isComposing || event.keyCode === 229 || this.composing) return;
      event.preventDefault();
      onSend();
    });
    box.addEventListener("input", () => this.changed());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      onSend();
      box.focus({ preventScroll: true });
    });
    if (!box.value) box.value = kept.get(draftKey);
    this.changed();
  }

  // Empty if nothing is visible, as on the server.
  get text() {
    const text = this.box.value.trim();
    return SEEN.test(text) ? text : "";
  }

  get nOver() {
    return countChars(this.text) - this.limit;
  }

  clear() {
    this.box.value = "";
    this.changed();
  }

  // A refused message is inserted before newer text.
  giveBack(text) {
    const now = this.text;
    if (now !== text) this.box.value = now ? `${text}\n${now}` : text;
    this.changed();
  }

  openFor(isOpen) {
    this.button.setAttribute("aria-disabled", String(!isOpen));
  }

  changed() {
    const { box, counter } = this;
    kept.set(this.draftKey, box.value);
    box.style.setProperty("height", "auto");
    box.style.setProperty("height", `${Math.min(box.scrollHeight, LINES_MAX_PX)}px`);
    box.style.setProperty("overflow-y", box.scrollHeight > LINES_MAX_PX ? "auto" : "hidden");
    const n = countChars(this.text);
    counter.textContent = `${n} / ${this.limit}`;
    counter.classList.toggle("near", n > this.limit - COUNT_FROM);
    counter.classList.toggle("over", n > this.limit);
    this.onChange?.();
  }
}
