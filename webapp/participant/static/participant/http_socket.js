// Chat over HTTP requests, for networks that block WebSockets. It looks like a WebSocket to its caller: the
// server's frames are the same, only pieces of replies are missing.

const SOON_MS = 1000; // while a reply is due
const LATER_MS = 2000; // while a reply takes longer, or a person may come or go
const IDLE_MS = 10000;
const N_SOON = 8;
const GIVEN_UP_MS = 20000; // a request without a response
const SERVER_AWAY = 1013;
const all = new Set(); // all sockets of this page: a message to one chat of a pair can change the other

export class HttpSocket extends EventTarget {
  // `address` is that of the WebSocket which this replaces.
  constructor(address) {
    super();
    this.readyState = 0;
    this.address = new URL(address);
    this.address.protocol = location.protocol;
    this.address.pathname = this.address.pathname.replace(/\/ws\/(chat\/[^/]+\/)$/, "/$1");
    this.after = null; // the latest known turn; null before the history
    this.due = false;
    this.nLooks = 0;
    this.partner = "";
    this.passed = new Map(); // type -> the latest frame with a state
    this.queue = Promise.resolve();
    all.add(this);
    this.look();
  }

  send(text) {
    this.request("messages/", { method: "POST", body: `[${text}]`, headers: { "Content-Type": "application/json" } });
  }

  look() {
    clearTimeout(this.timer);
    this.request("state/");
  }

  // One request at a time, so that frames arrive in order.
  request(page, options = {}) {
    this.queue = this.queue.then(() => this.fetch(page, options));
  }

  async fetch(page, options) {
    if (this.readyState === 3) return;
    const url = new URL(page, this.address);
    url.search = this.address.search;
    const isLook = !options.method;
    if (isLook && this.after !== null) url.searchParams.set("after", this.after);
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(), GIVEN_UP_MS);
    try {
      const response = await fetch(url.href, { ...options, signal: giveUp.signal, credentials: "same-origin" });
      const frames = await response.json();
      if (this.readyState === 3) return;
      if (this.readyState === 0) {
        this.readyState = 1;
        this.dispatchEvent(new Event("open"));
      }
      for (const frame of frames) this.take(frame, isLook && url.searchParams.has("after"));
      if (isLook && response.status === 503) throw new Error("the server is away");
      this.lookLater(isLook);
      if (!isLook) for (const other of all) if (other !== this) other.look();
    } catch {
      this.close();
    } finally {
      clearTimeout(timer);
    }
  }

  take(frame, isNews) {
    const { type, turn } = frame;
    if (["error", "pick", "waiting"].includes(type)) {
      const text = JSON.stringify(frame);
      if (isNews && this.passed.get(type) === text) return;
      this.passed.set(type, text);
    }
    if (type === "history") {
      this.after = Math.max(-1, ...frame.turns.map((one) => one.turn));
      this.due = Boolean(frame.pending);
      this.passed.clear();
    } else if (type === "turn" || type === "reply") {
      this.after = Math.max(this.after, turn);
      this.due = type === "turn";
    } else if (type === "error" && frame.code === "bot_failed") {
      this.due = Boolean(frame.overdue);
    } else if (type === "waiting" && this.partner !== frame.state) {
      this.partner = frame.state;
      // The chat may have been replaced: start again with its history.
      if (isNews) this.after = null;
    }
    this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) }));
  }

  lookLater(isLook) {
    this.nLooks = isLook && this.due ? this.nLooks + 1 : 0;
    let wait = IDLE_MS;
    if (this.due && this.nLooks < N_SOON) wait = SOON_MS;
    else if (this.due || (this.partner && !document.hidden)) wait = LATER_MS;
    if (this.after === null) wait = 0;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), wait);
  }

  close() {
    if (this.readyState === 3) return;
    this.readyState = 3;
    all.delete(this);
    clearTimeout(this.timer);
    this.dispatchEvent(Object.assign(new Event("close"), { code: SERVER_AWAY }));
  }
}
