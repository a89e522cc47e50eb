// The pieces of a reply in progress, joined as they arrive. Offset 0 starts it; after a gap, wait for the whole reply.

export class Pieces {
  constructor() {
    this.text = "";
    this.n = 0;
    this.broken = true; // until its beginning is here
  }

  // Add a piece and return whether there is more to draw.
  add({ offset, text }) {
    if (offset === 0) {
      this.text = "";
      this.n = 0;
      this.broken = false;
    }
    if (this.broken || offset < this.n) return false; // a piece that arrived twice
    if (offset > this.n) {
      this.broken = true;
      return false;
    }
    this.text += text;
    for (const _ of text) this.n += 1;
    return true;
  }
}
