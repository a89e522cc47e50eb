// A log that follows what arrives until the participant scrolls up; then a pill announces new lines.
// A reply longer than the log stops at its first line, where reading begins.

const NEAR_TARGET_PX = 60;
const ABOVE_REPLY_PX = 12;

export class Follower {
  constructor(list, pill) {
    this.list = list;
    this.pill = pill;
    this.isFollowing = true;
    this.reply = null; // the reply whose first line stays visible
    list.addEventListener("scroll", () => {
      this.isFollowing = list.scrollTop > this.target - NEAR_TARGET_PX;
      if (this.isFollowing) pill.hidden = true;
    });
    pill.addEventListener("click", () => {
      this.toBottom();
      list.focus();
    });
    // A phone's keyboard opens and the window shrinks: keep the newest message visible.
    new ResizeObserver(() => this.follow()).observe(list);
  }

  // Scroll position while following: the end, or the first line of a long reply.
  get target() {
    const { list, reply } = this;
    const end = list.scrollHeight - list.clientHeight;
    if (!reply?.isConnected) return end;
    const above = reply.getBoundingClientRect().top - list.getBoundingClientRect().top;
    return Math.min(end, list.scrollTop + above - ABOVE_REPLY_PX);
  }

  // Keep the first line of `reply` visible while it grows.
  stopAt(reply) {
    this.reply = reply;
  }

  toBottom() {
    this.reply = null;
    this.isFollowing = true;
    this.pill.hidden = true;
    this.list.scrollTop = this.list.scrollHeight;
  }

  // Never scroll up: a participant who reads further down stays there.
  follow() {
    if (this.isFollowing && this.target > this.list.scrollTop) this.list.scrollTop = this.target;
  }

  // New content: the log follows, or the pill announces it.
  arrived() {
    if (this.isFollowing) this.follow();
    else this.pill.hidden = false;
  }
}
