// A log that follows what arrives until the participant scrolls up; then a pill announces new lines.
// A reply longer than the log stops at its first line, so that reading begins where the reply begins.

const NEAR_TARGET_PX = 60;
const ABOVE_REPLY_PX = 12;

export class Follower {
  constructor(list, pill) {
    this.list = list;
    this.pill = pill;
    this.isFollowing = true;
    this.reply = null; // the reply whose first line stays in sight
    list.addEventListener("scroll", () => {
      this.isFollowing = list.scrollTop > this.target - NEAR_TARGET_PX;
      if (this.isFollowing) pill.hidden = true;
    });
    pill.addEventListener("click", () => {
      this.toBottom();
      list.focus();
    });
    // The keyboard of a phone opens, the window shrinks: the newest message stays in sight.
    new ResizeObserver(() => this.follow()).observe(list);
  }

  // Where the log stands while it follows: at its end, or at the first line of a long reply.
  get target() {
    const { list, reply } = this;
    const end = list.scrollHeight - list.clientHeight;
    if (!reply?.isConnected) return end;
    const above = reply.getBoundingClientRect().top - list.getBoundingClientRect().top;
    return Math.min(end, list.scrollTop + above - ABOVE_REPLY_PX);
  }

  // Keep the first line of `reply` in sight while it grows.
  stopAt(reply) {
    this.reply = reply;
  }

  toBottom() {
    this.reply = null;
    this.isFollowing = true;
    this.pill.hidden = true;
    this.list.scrollTop = this.list.scrollHeight;
  }

  // Never upwards: who reads on further down stays there.
  follow() {
    if (this.isFollowing && this.target > this.list.scrollTop) this.list.scrollTop = this.target;
  }

  // Something new that was not there before: the log follows, or the pill says so.
  arrived() {
    if (this.isFollowing) this.follow();
    else this.pill.hidden = false;
  }
}
