// The conversation on the page: nodes are appended, never rewritten, and keyed by turn number.

import { htmlShow } from "../core/markdown.js";
import { traceShow } from "../core/trace.js";
import { byId } from "./page.js";
import { Pieces } from "./pieces.js";
import { Follower } from "./scrolling.js";
import { Votes } from "./votes.js";

const SLOW_AFTER_MS = 15000;
const PAINT_EVERY_MS = 100;

const clone = (id) => byId(id).content.firstElementChild.cloneNode(true);

// An image as in messages on the page.
function imageNode({ url, description }) {
  const node = document.createElement("img");
  Object.assign(node, { className: "chat-image", src: url, alt: description });
  return node;
}

export class Log {
  // `box` scrolls and is announced; the list in it keeps the meaning of a list.
  // `onReply(node, turn)` adds what a study asks below a reply.
  // `inBlocks`: replies are Markdown and shown block by block.
  constructor(box, { pill, onVote, onRetry, onReply = () => {}, inBlocks = false }) {
    this.box = box;
    this.inBlocks = inBlocks;
    this.list = box.querySelector("ol");
    this.onVote = onVote;
    this.onRetry = onRetry;
    this.onReply = onReply;
    this.turns = new Map(); // turn -> {speaker, node, votes}
    this.waiting = null; // the unacknowledged message
    this.coming = null; // the reply in progress: {turn, node, pieces, html, drawn}
    this.failed = null;
    this.follower = new Follower(box, pill);
  }

  toBottom() {
    this.follower.toBottom();
  }

  follow() {
    this.follower.follow();
  }

  // Complete replies; a bot's opening, which is turn 0, is not a reply.
  get nReplies() {
    let n = 0;
    for (const [turn, entry] of this.turns) n += turn > 0 && entry.speaker === "bot" ? 1 : 0;
    return n;
  }

  get nMessages() {
    let n = 0;
    for (const entry of this.turns.values()) n += entry.speaker === "human" ? 1 : 0;
    return n;
  }

  get lastHumanText() {
    let last = "";
    for (const entry of this.turns.values()) if (entry.speaker === "human") last = entry.text;
    return last;
  }

  // Everything stored, in order. Partial text is removed; complete turns stay.
  history(turns) {
    this.comingEnd();
    this.failureEnd();
    for (const turn of turns) {
      if (turn.speaker === "bot") this.reply(turn);
      else this.human(turn);
    }
  }

  // `html` of a message with an image.
  human({ turn, text, html, refused }) {
    if (this.turns.has(turn)) return;
    const node = clone("tpl-you");
    if (html) htmlShow(node.querySelector(".bubble"), html);
    else node.querySelector(".bubble").textContent = text;
    this.turns.set(turn, { speaker: "human", text, node });
    this.place(node, turn);
    if (refused) this.refuse(turn);
  }

  // A content filter refused the message with this number.
  refuse(turn) {
    const node = this.turns.get(turn)?.node;
    if (!node || node.classList.contains("msg-refused")) return;
    node.classList.add("msg-refused");
    node.append(clone("tpl-refused"));
  }

  // A message waiting to be sent or acknowledged; `late` shows it.
  waitingShow({ text, image }, late) {
    if (!this.waiting) {
      this.waiting = clone("tpl-you");
      this.waiting.querySelector(".bubble").append(...(image ? [imageNode(image)] : []), text);
      this.list.append(this.waiting);
      this.toBottom();
    }
    if (late && !this.waiting.classList.contains("msg-waiting")) {
      this.waiting.classList.add("msg-waiting");
      this.waiting.append(clone("tpl-waiting"));
      this.follow();
    }
  }

  waitingEnd() {
    this.waiting?.remove();
    this.waiting = null;
  }

  // The message is stored: its bubble becomes turn `turn` without being redrawn.
  waitingStored({ turn, text, html }) {
    if (!this.waiting || this.turns.has(turn)) {
      this.waitingEnd();
      this.human({ turn, text, html });
      return;
    }
    const node = this.waiting;
    this.waiting = null;
    node.classList.remove("msg-waiting");
    node.querySelector(".waiting")?.remove();
    const bubble = node.querySelector(".bubble");
    if (html) htmlShow(bubble, html);
    else if (bubble.textContent !== text) bubble.textContent = text;
    node.dataset.turn = turn;
    this.turns.set(turn, { speaker: "human", text, node });
  }

  // A reply is due: dots until its first piece.
  typing(turn) {
    if (this.coming?.turn === turn || this.turns.has(turn)) return;
    this.comingEnd();
    this.failureEnd();
    const node = clone("tpl-bot");
    const dots = clone("tpl-typing");
    node.querySelector(".bubble").append(dots);
    node.classList.add("msg-new");
    this.list.append(node);
    this.follower.stopAt(node);
    this.box.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => {
      dots.classList.add("slow");
      dots.querySelector(".typing-words").textContent = this.slowWords;
      this.onSlow?.();
      this.follow();
    }, SLOW_AFTER_MS);
    this.coming = { turn, node, pieces: new Pieces(), html: new Pieces(), steps: [], drawn: false, slow, paint: 0 };
    this.follow();
  }

  // A piece of the reply.
  token({ turn, offset, text }) {
    this.add(turn, "pieces", { offset, text });
  }

  // More blocks of the reply.
  html({ turn, offset, html }) {
    this.add(turn, "html", { offset, text: html });
  }

  // A step before the reply.
  trace({ turn, number, step }) {
    if (this.turns.has(turn)) return;
    if (this.coming?.turn !== turn) this.typing(turn);
    this.coming.steps[number] = step;
    traceShow(this.coming.node, this.coming.steps);
    this.follow();
  }

  add(turn, kind, piece) {
    if (this.turns.has(turn)) return;
    if (this.coming?.turn !== turn) this.typing(turn);
    const coming = this.coming;
    if (!coming[kind].add(piece)) return;
    if (!coming.paint) coming.paint = setTimeout(() => this.paint(), coming.drawn ? PAINT_EVERY_MS : 0);
  }

  paint() {
    const coming = this.coming;
    if (!coming) return;
    coming.paint = 0;
    if (!coming.pieces.text) return;
    clearTimeout(coming.slow);
    if (this.inBlocks && !coming.html.text) return; // the dots stay until the first block
    coming.node.classList.add("streaming");
    const bubble = coming.node.querySelector(".bubble");
    if (this.inBlocks) htmlShow(bubble, coming.html.text);
    else bubble.textContent = coming.pieces.text;
    coming.drawn = true;
    this.follow();
  }

  // The complete reply is stored: it replaces the streamed text.
  reply({ turn, text, html, trace, vote = 0 }) {
    const known = this.turns.get(turn);
    if (known) {
      if (this.coming?.turn === turn) this.comingEnd();
      known.votes.confirm(vote);
      return false;
    }
    let node = null;
    if (this.coming?.turn === turn) {
      node = this.coming.node;
      this.comingRelease();
      node.classList.remove("streaming");
      node.querySelector(".typing")?.remove();
    } else {
      node = clone("tpl-bot");
      this.place(node, turn);
    }
    const bubble = node.querySelector(".bubble");
    if (html) htmlShow(bubble, html);
    else if (bubble.textContent !== text) bubble.textContent = text;
    traceShow(node, trace);
    node.dataset.turn = turn;
    const group = clone("tpl-votes");
    const acts = document.createElement("div");
    acts.className = "reply-acts";
    acts.append(group, ...[this.reportOf?.(turn)].filter(Boolean));
    node.append(acts);
    const votes = new Votes(group, turn, vote, this.onVote);
    this.turns.set(turn, { speaker: "bot", text, node, votes });
    this.onReply(node, turn);
    this.box.removeAttribute("aria-busy");
    this.follower.arrived();
    return true;
  }

  // The bot did not answer; the card offers the ways on that the server names.
  // `title` gives the reason if it is known.
  failure(can, title, { isOurFault = true } = {}) {
    this.comingEnd();
    this.failureEnd();
    this.failed = clone("tpl-failed");
    if (title) this.failed.querySelector(".point-title").textContent = title;
    this.failed.querySelector("[data-fault]").hidden = !isOurFault;
    for (const way of this.failed.querySelectorAll("[data-can]")) {
      way.hidden = !can.includes(way.dataset.can);
    }
    this.failed.querySelector("[data-can=retry]").addEventListener("click", () => this.onRetry());
    this.list.append(this.failed);
    this.toBottom();
  }

  failureEnd() {
    this.failed?.remove();
    this.failed = null;
  }

  comingRelease() {
    clearTimeout(this.coming?.slow);
    clearTimeout(this.coming?.paint);
    this.coming = null;
    this.box.removeAttribute("aria-busy");
  }

  comingEnd() {
    this.coming?.node.remove();
    this.comingRelease();
  }

  // Insert a stored turn by its number; almost always that is the end.
  place(node, turn) {
    node.dataset.turn = turn;
    const after = [...this.list.children].find(
      (other) => other.dataset.turn === undefined || Number(other.dataset.turn) > turn,
    );
    this.list.insertBefore(node, after ?? null);
    this.follow();
  }
}
