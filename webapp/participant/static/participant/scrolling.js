// A log that stays at its newest line until the participant scrolls up; then a pill announces new lines.

const NEAR_BOTTOM_PX = 60;

export class Follower {
  constructor(list, pill) {
    this.list = list;
    this.pill = pill;
    this.atBottom = true;
    list.addEventListener("scroll", () => {
      this.atBottom = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_BOTTOM_PX;
      if (this.atBottom) pill.hidden = true;
    });
    pill.addEventListener("click", () => {
      this.toBottom();
      list.focus();
    });
    // The keyboard of a phone opens, the window shrinks: the newest message stays in sight.
    new ResizeObserver(() => this.follow()).observe(list);
  }

  toBottom() {
    this.atBottom = true;
    this.pill.hidden = true;
    this.list.scrollTop = this.list.scrollHeight;
  }

  follow() {
    if (this.atBottom) this.list.scrollTop = this.list.scrollHeight;
  }

  // Something new that was not there before: the log follows, or the pill says so.
  arrived() {
    if (this.atBottom) this.follow();
    else this.pill.hidden = false;
  }
}
