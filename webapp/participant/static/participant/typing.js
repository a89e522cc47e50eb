// Counts how a message is typed, if the study and its participants' consent allow it: only counts, never keys.

const PASTES = ["insertFromPaste", "insertFromDrop", "insertFromYank"];

export class TypingCount {
  #isOn;
  #countsFocus;
  #counts;
  #since;

  constructor(box, { countsTyping, countsFocus }) {
    this.#isOn = countsTyping !== undefined;
    this.#countsFocus = countsFocus !== undefined;
    if (!this.#isOn) return;
    this.#begin();
    // Phones report the kind of every change of the text instead of keys.
    box.addEventListener("beforeinput", ({ inputType }) => this.#count(inputType ?? ""));
    if (!this.#countsFocus) return;
    // Another window takes the focus; phones only hide the page. Both happen together for another tab, which counts once.
    let isAway = false;
    const leave = () => {
      if (!isAway) this.#counts.focus_losses += 1;
      isAway = true;
    };
    addEventListener("blur", leave);
    addEventListener("focus", () => (isAway = false));
    document.addEventListener("visibilitychange", () => (document.hidden ? leave() : (isAway = false)));
  }

  #begin() {
    this.#counts = { keystrokes: 0, pastes: 0, deletions: 0 };
    if (this.#countsFocus) this.#counts.focus_losses = 0;
    this.#since = null;
  }

  #count(inputType) {
    this.#since ??= performance.now();
    if (PASTES.includes(inputType)) this.#counts.pastes += 1;
    else if (inputType.startsWith("insert")) this.#counts.keystrokes += 1;
    else if (inputType.startsWith("delete")) this.#counts.deletions += 1;
  }

  // Counts since the last message, sent with the next one; nothing if they are not recorded.
  take() {
    if (!this.#isOn) return {};
    const ms = this.#since === null ? 0 : Math.round(performance.now() - this.#since);
    const typing = { ...this.#counts, ms };
    this.#begin();
    return { typing };
  }

  // The message was refused, and its text is back in the box.
  giveBack(typing) {
    if (!this.#isOn || !typing) return;
    for (const name of Object.keys(this.#counts)) this.#counts[name] += typing[name];
    this.#since = Math.min(this.#since ?? Infinity, performance.now()) - typing.ms;
  }
}
