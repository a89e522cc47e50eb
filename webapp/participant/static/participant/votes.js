// Thumbs under a reply: shown immediately, and reverted if the server refuses.

export class Votes {
  // `group` is the element with both buttons; `cast(turn, value)` sends the vote and returns whether it could.
  constructor(group, turn, vote, cast) {
    this.group = group;
    this.turn = turn;
    this.stored = vote;
    this.wanted = null;
    for (const button of group.querySelectorAll("button")) {
      button.addEventListener("click", () => {
        const value = Number(button.dataset.value);
        const next = this.shown === value ? 0 : value;
        this.wanted = next;
        this.draw();
        if (!cast(turn, next)) this.refused();
      });
    }
    this.draw();
  }

  get shown() {
    return this.wanted ?? this.stored;
  }

  // The server stored this value (perhaps from another tab).
  confirm(value) {
    this.stored = value;
    if (this.wanted === value) this.wanted = null;
    this.draw();
  }

  // The requested, unconfirmed vote; null without one.
  get pending() {
    return this.wanted === this.stored ? null : this.wanted;
  }

  refused() {
    this.wanted = null;
    this.draw();
  }

  draw() {
    for (const button of this.group.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.value) === this.shown));
    }
  }
}
