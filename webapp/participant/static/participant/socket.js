// A socket that reconnects: it waits 0.5 to 15 s between attempts, with jitter, so that clients do not all hit a
// restarted server at once. In a network that blocks WebSockets it continues by HTTP requests.

import { HttpSocket } from "./http_socket.js";
import { kept } from "./page.js";

const FIRST_MS = 500;
const LONGEST_MS = 15000;
const NEVER_MS = 15000; // no WebSocket has opened for this long
const SHORT_MS = 10000; // a WebSocket was closed this soon after it opened
const MOST_SHORT = 3;
const BY_SERVER = [1001, 1012, 1013]; // closed by a server that is restarting or busy
const KEY = "confab.by-http";

let isByHttp = kept.get(KEY) !== "";

// True if this page believes that the network blocks WebSockets.
export const byHttp = () => isByHttp;

function useHttp() {
  isByHttp = true;
  kept.set(KEY, "yes");
}

function opened(address) {
  if (!isByHttp) {
    try {
      return new WebSocket(address);
    } catch {
      useHttp(); // the browser forbids it
    }
  }
  return new HttpSocket(address);
}

export class Socket {
  // `on` has open(), frame(object) and down(); the last one is also called when an attempt fails.
  constructor(address, on) {
    this.address = address;
    this.on = on;
    this.attempts = 0;
    this.nShort = 0;
    this.ended = false;
    this.timer = 0;
    if (!isByHttp) this.never = setTimeout(() => this.fallBack(), NEVER_MS);
    addEventListener("online", () => this.hurry());
    addEventListener("offline", () => this.restart());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.hurry();
    });
    this.connect();
  }

  get isOpen() {
    return this.socket?.readyState === 1;
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = 0;
    const socket = opened(this.address);
    let openedAt = null;
    this.socket = socket;
    socket.addEventListener("open", () => {
      openedAt = performance.now();
      if (socket === this.socket) this.on.open();
    });
    socket.addEventListener("message", (event) => {
      clearTimeout(this.never); // a proxy can open a socket and forward nothing
      if (socket !== this.socket) return;
      this.on.frame(JSON.parse(event.data));
    });
    socket.addEventListener("close", ({ code }) => {
      if (socket !== this.socket || this.ended) return;
      const isShort = openedAt !== null && performance.now() - openedAt < SHORT_MS;
      if (isShort && !BY_SERVER.includes(code)) this.nShort += 1;
      if (this.nShort >= MOST_SHORT) useHttp();
      this.on.down();
      const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.attempts);
      this.attempts += 1;
      this.timer = setTimeout(() => this.connect(), wait * (0.5 + Math.random() / 2));
    });
  }

  fallBack() {
    useHttp();
    this.restart();
    this.hurry();
  }

  // The server works: the next interruption starts again with short waits.
  settled() {
    this.attempts = 0;
  }

  // Retry immediately if it is waiting.
  hurry() {
    if (this.timer && !this.ended) this.connect();
  }

  // Abandon a connection that does not respond; the close event starts the next attempt.
  restart() {
    if (this.ended || !this.socket) return;
    const old = this.socket;
    this.socket = { readyState: 3 };
    old.close?.();
    this.on.down();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), FIRST_MS * (0.5 + Math.random()));
  }

  send(frame) {
    if (!this.isOpen) return false;
    this.socket.send(JSON.stringify(frame));
    return true;
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    clearTimeout(this.never);
    this.socket?.close();
  }
}

// The address of a socket, with the page's participant token if any.
export function socketAddress(path, token) {
  const address = new URL(path, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  if (token) address.searchParams.set("t", token);
  return address.href;
}
