// Two chats in one log, round by round: the message, the reply of A, the reply of B. Nodes are appended, never
// rewritten. Round r holds message r and its replies, whose turns are one later where a bot opens the chat. Where a chatbot failed, its round is held: both places
// look alike, empty or with dots, until both replies are complete, so that the page does not tell whose fault it was.

import { htmlShow, htmlWords } from "../core/markdown.js";
import { traceShow } from "../core/trace.js";
import { byId } from "./page.js";
import { Pieces } from "./pieces.js";
import { Follower } from "./scrolling.js";

const SLOW_AFTER_MS = 15000;
const PAINT_EVERY_MS = 100;

const clone = (id) => byId(id).content.firstElementChild.cloneNode(true);
const roundOfMessage = (turn) => Math.floor(turn / 2);
const roundOfReply = (turn) => Math.floor((turn - 1) / 2);

export class Rounds {
  // `sides` are their letters in order; `speakers` are their displayed names.
  constructor(list, { frame, pill, sides, speakers, slowWords, onRead, inBlocks, firsts }) {
    Object.assign(this, { list, sides, speakers, slowWords, onRead, inBlocks, firsts });
    this.follower = new Follower(frame, pill);
    this.opening = null; // the bots' opening lines, turn 0; a round without a message, and none of `rounds`
    this.rounds = []; // {node, human, held, broken, toldTo, replies: {side: {node, bubble, text, html, pieces, blocks, paint, slow}}}
    this.waiting = null; // the message that is not stored yet
    this.nRead = null; // replies announced, in order; null until the history is drawn
  }

  // The sides of a round, in display order.
  order(number) {
    return this.firsts?.[number] === "1" ? [...this.sides].reverse() : this.sides;
  }

  // Name of the side at a position of a round.
  label(side, place) {
    return this.firsts ? String(place + 1) : side;
  }

  // A side's reply with this number; undefined before its round exists.
  replyAt(side, turn) {
    return this.rounds[roundOfReply(turn)]?.replies[side];
  }

  // Number of complete replies of a side.
  nReplies(side) {
    return this.rounds.filter((round) => round.replies[side].text !== null).length;
  }

  // The messages of a side, by text.
  saidTo(side) {
    return this.rounds.filter((round) => round.toldTo.has(side)).map((round) => round.human);
  }

  // Everything stored of a side. Partial text is removed; complete turns stay.
  history(side, turns) {
    for (const round of this.rounds) this.replyStop(round.replies[side]);
    for (const { turn, speaker, text, html, trace } of turns) {
      if (speaker === "bot") this.reply(side, turn, { text, html, trace });
      else this.human(side, turn, text);
    }
  }

  // From now on, complete replies are announced.
  readFromHere() {
    this.nRead ??= this.inOrder().length;
  }

  round(index) {
    while (this.rounds.length <= index) {
      const number = this.rounds.length;
      const node = this.waiting && number === index ? this.waiting : clone("tpl-round");
      this.waitingRelease(node);
      const replies = this.repliesAdd(node, number);
      if (!node.isConnected) this.list.append(node);
      // It is not yet known whether the page was left while a reply was late or had failed.
      const held = this.nRead === null;
      this.rounds.push({ number, node, human: "", held, broken: new Set(), toldTo: new Set(), replies });
    }
    return this.rounds[index];
  }

  repliesAdd(node, number) {
    const replies = {};
    for (const [place, side] of this.order(number).entries()) {
      const reply = clone("tpl-side");
      const label = this.label(side, place);
      reply.querySelector(".side-mark").textContent = label;
      reply.querySelector(".speaker-name").textContent = this.speakers[label];
      reply.hidden = true;
      node.querySelector(".pair").append(reply);
      replies[side] = { node: reply, bubble: reply.querySelector(".bubble"), text: null, pieces: null };
    }
    return replies;
  }

  openingRound() {
    if (!this.opening) {
      const node = clone("tpl-round");
      node.querySelector(".msg-you").remove();
      this.list.prepend(node);
      this.opening = { node, held: false, replies: this.repliesAdd(node, 0) };
    }
    return this.opening;
  }

  human(side, turn, text) {
    const round = this.round(roundOfMessage(turn));
    round.human = text;
    round.toldTo.add(side);
    const bubble = round.node.querySelector(".msg-you .bubble");
    if (bubble.textContent !== text) bubble.textContent = text;
    this.follower.follow();
  }

  // A message that waits to be sent or acknowledged; `late` says so on it.
  waitingShow(text, late) {
    if (!this.waiting) {
      this.waiting = clone("tpl-round");
      this.waiting.querySelector(".bubble").textContent = text;
      this.list.append(this.waiting);
      this.follower.toBottom();
    }
    const message = this.waiting.querySelector(".msg-you");
    if (late && !message.classList.contains("msg-waiting")) {
      message.classList.add("msg-waiting");
      message.append(clone("tpl-waiting"));
      this.follower.follow();
    }
  }

  waitingRelease(node) {
    if (node !== this.waiting) return;
    node.querySelector(".msg-you").classList.remove("msg-waiting");
    node.querySelector(".waiting")?.remove();
    this.waiting = null;
  }

  waitingEnd() {
    this.waiting?.remove();
    this.waiting = null;
  }

  // A reply is due: dots until its first piece, for both sides in a held round. While the other side has failed there
  // are none, so that delays do not reveal which one failed.
  typing(side, turn) {
    const round = this.round(roundOfReply(turn));
    round.broken.delete(side);
    if (round.broken.size) return;
    if (round.held) for (const reply of Object.values(round.replies)) this.dotsShow(reply);
    else if (round.replies[side].text === null) this.dotsShow(round.replies[side]);
    this.follower.stopAt(round.node.querySelector(".pair"));
    this.follower.follow();
  }

  dotsShow(reply) {
    if (reply.pieces) return;
    const dots = clone("tpl-typing");
    reply.bubble.replaceChildren(dots);
    reply.node.hidden = false;
    reply.node.setAttribute("aria-busy", "true");
    reply.pieces = new Pieces();
    reply.blocks = new Pieces();
    reply.slow = setTimeout(() => {
      dots.classList.add("slow");
      dots.querySelector(".typing-words").textContent = this.slowWords;
      this.follower.follow();
    }, SLOW_AFTER_MS);
  }

  token(side, { turn, offset, text }) {
    this.add(side, turn, "pieces", { offset, text });
  }

  html(side, { turn, offset, html }) {
    this.add(side, turn, "blocks", { offset, text: html });
  }

  add(side, turn, kind, piece) {
    const round = this.round(roundOfReply(turn));
    const reply = round.replies[side];
    if (reply.text !== null) return;
    this.typing(side, turn);
    if (round.held || !reply[kind].add(piece) || reply.paint) return;
    reply.paint = setTimeout(() => {
      reply.paint = 0;
      if (!reply.pieces?.text) return;
      clearTimeout(reply.slow);
      if (this.inBlocks && !reply.blocks.text) return; // the dots stay until the first block
      reply.node.classList.add("streaming");
      if (this.inBlocks) htmlShow(reply.bubble, reply.blocks.text);
      else reply.bubble.textContent = reply.pieces.text;
      this.follower.follow();
    }, PAINT_EVERY_MS);
  }

  // The whole reply is stored: it replaces whatever streamed.
  reply(side, turn, { text, html, trace }) {
    const round = turn === 0 ? this.openingRound() : this.round(roundOfReply(turn));
    const reply = round.replies[side];
    if (reply.text !== null) return;
    Object.assign(reply, { text, html, trace, turn });
    if (!round.held) {
      this.replyShow(side, turn, reply);
    } else if (Object.values(round.replies).every((one) => one.text !== null)) {
      round.held = false;
      for (const [name, one] of Object.entries(round.replies)) this.replyShow(name, turn, one);
    }
    this.readOn();
  }

  replyShow(side, turn, reply) {
    this.replyStop(reply);
    if (reply.html) htmlShow(reply.bubble, reply.html);
    else reply.bubble.textContent = reply.text;
    traceShow(reply.node, reply.trace);
    reply.node.hidden = false;
    const report = reply.node.querySelector("[data-report]") ? null : this.reportOf?.(side, turn);
    if (report) reply.node.querySelector(".speaker").append(report);
    this.follower.arrived();
  }

  // Nothing more arrives of this reply for now: remove its dots and partial text.
  replyStop(reply) {
    if (!reply.pieces) return;
    clearTimeout(reply.slow);
    clearTimeout(reply.paint);
    Object.assign(reply, { pieces: null, paint: 0, slow: 0 });
    reply.node.classList.remove("streaming");
    reply.node.removeAttribute("aria-busy");
    reply.bubble.replaceChildren();
    reply.node.hidden = true;
  }

  // The other side's reply is also removed until both are complete.
  failed(side, turn) {
    const round = this.round(roundOfReply(turn));
    round.held = true;
    round.broken.add(side);
    for (const reply of Object.values(round.replies)) {
      this.replyStop(reply);
      reply.bubble.replaceChildren();
      reply.node.hidden = true;
    }
  }

  // Replies to announce: complete, like every one before them. A comes before B.
  inOrder() {
    const found = [];
    for (const round of this.rounds) {
      for (const [place, side] of this.order(round.number).entries()) {
        const { text, html } = round.replies[side];
        if (text === null) return found;
        found.push({ side: this.label(side, place), text: html ? htmlWords(html) : text });
      }
    }
    return found;
  }

  // Each reply is announced once, when it is complete.
  readOn() {
    if (this.nRead === null) return;
    const found = this.inOrder();
    for (const { side, text } of found.slice(this.nRead)) this.onRead(side, text);
    this.nRead = found.length;
  }
}
