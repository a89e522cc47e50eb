// Labels under a reply of the participant's own chat: saved at every change, and reverted if the server refuses.

import { fill } from "./page.js";

const NONE = "_none";

export class Marks {
  // `box` is the details element with the labels; `cast(turn, marks)` sends them and returns whether it could; `say`
  // announces.
  constructor(box, turn, { words, cast, say }) {
    this.box = box;
    this.turn = turn;
    this.words = words;
    this.stored = [];
    this.pending = false;
    this.boxes = [...box.querySelectorAll("input")];
    box.addEventListener("change", ({ target }) => {
      const cleared = target.checked ? this.clear(target) : "";
      this.pending = true;
      this.draw();
      if (!cast(turn, this.ticked)) this.refused();
      else if (cleared) say(cleared);
    });
    box.addEventListener("toggle", () => {
      if (box.open) box.scrollIntoView({ block: "nearest" });
    });
    this.draw();
  }

  get ticked() {
    return this.boxes.filter((box) => box.checked).map((box) => box.value);
  }

  // “None of these” and the labels clear each other; returns the announcement.
  clear(target) {
    const isNone = target.value === NONE;
    const others = this.boxes.filter((box) => box.checked && (box.value === NONE) !== isNone);
    for (const box of others) box.checked = false;
    if (!others.length) return "";
    return isNone ? this.words.marks_cleared : this.words.marks_none_cleared;
  }

  // The server stored these (perhaps from another tab).
  confirm(marks) {
    this.stored = marks;
    const isMine = this.pending;
    this.pending = false;
    this.show(marks);
    return isMine;
  }

  refused() {
    this.pending = false;
    this.show(this.stored);
  }

  show(marks) {
    for (const box of this.boxes) box.checked = marks.includes(box.value);
    this.draw();
  }

  draw() {
    const names = this.boxes.filter((box) => box.checked).map((box) => box.parentElement.textContent.trim());
    const summary = this.box.querySelector("summary");
    summary.lastElementChild.textContent = names.length
      ? fill(this.words.marks_done, { marks: names.join(", ") })
      : this.words.marks_open;
    this.box.classList.toggle("is-done", names.length > 0);
  }
}
