// A socket that comes back: waits 0.5 to 15 s between attempts, with jitter, so that a restarted
// server is not met by everybody at once.

const FIRST_MS = 500;
const LONGEST_MS = 15000;

export class Socket {
  // `on` has open(), frame(object) and down(): the last one also when an attempt fails.
  constructor(address, on) {
    this.address = address;
    this.on = on;
    this.attempts = 0;
    this.ended = false;
    this.timer = 0;
    addEventListener("online", () => this.hurry());
    addEventListener("offline", () => this.restart());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.hurry();
    });
    this.connect();
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = 0;
    const socket = new WebSocket(this.address);
    this.socket = socket;
    socket.addEventListener("open", () => {
      if (socket === this.socket) this.on.open();
    });
    socket.addEventListener("message", (event) => {
      if (socket !== this.socket) return;
      this.on.frame(JSON.parse(event.data));
    });
    socket.addEventListener("close", () => {
      if (socket !== this.socket || this.ended) return;
      this.on.down();
      const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.attempts);
      this.attempts += 1;
      this.timer = setTimeout(() => this.connect(), wait * (0.5 + Math.random() / 2));
    });
  }

  // The server works: the next loss starts again with short waits.
  settled() {
    this.attempts = 0;
  }

  // Try at once, if it is waiting.
  hurry() {
    if (this.timer && !this.ended) this.connect();
  }

  // Give up a connection that does not answer; the close event starts the next attempt.
  restart() {
    if (this.ended || !this.socket) return;
    const old = this.socket;
    this.socket = { readyState: WebSocket.CLOSED };
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
    this.socket?.close();
  }
}

// The address of a socket, with the participant token where the page carries one.
export function socketAddress(path, token) {
  const address = new URL(path, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  if (token) address.searchParams.set("t", token);
  return address.href;
}
