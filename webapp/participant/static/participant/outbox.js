// The single unacknowledged message. It survives a reload, and is sent again with the same client_id, by which the
// server recognises it.

import { kept } from "./page.js";

export function uuid() {
  if (crypto.randomUUID) return crypto.randomUUID();
  // Pages without TLS do not have randomUUID.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export class Outbox {
  constructor(key) {
    this.key = key;
    const text = kept.get(key);
    this.message = text ? JSON.parse(text) : null;
  }

  // `more` is sent with it, such as typing counts.
  put(text, more = {}) {
    this.message = { type: "message", client_id: uuid(), text, ...more };
    kept.set(this.key, JSON.stringify(this.message));
    return this.message;
  }

  holds(clientId) {
    return this.message !== null && this.message.client_id === clientId;
  }

  clear() {
    this.message = null;
    kept.set(this.key, "");
  }
}
