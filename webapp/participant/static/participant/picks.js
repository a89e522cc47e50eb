// Picking one of two replies at every turn: both are side by side with a button each, in random order, and the chat
// continues with the picked one. The other one is then hidden.

import { byId, fill } from "./page.js";

const clone = (id) => byId(id).content.firstElementChild.cloneNode(true);

export class Picks {
  // `onPick(side, turn, equal)` sends a pick.
  constructor(rounds, sides, words, onPick) {
    Object.assign(this, { rounds, sides, words, onPick });
  }

  isComplete(round) {
    return this.sides.every((side) => round.replies[side].text !== null) && !round.held;
  }

  // The round that awaits a pick; undefined if none does.
  get due() {
    const last = this.rounds.rounds[this.rounds.rounds.length - 1];
    return last && this.isComplete(last) && !last.picked ? last : undefined;
  }

  // The round that awaits a pick has buttons.
  show() {
    const round = this.due;
    if (!round || round.node.querySelector(".pick")) return;
    for (const [i, side] of this.rounds.order(round.number).entries()) {
      const button = clone("tpl-pick");
      button.setAttribute("aria-label", fill(this.words.pick, { side: i + 1 }));
      button.addEventListener("click", () => this.onPick(side, round.replies[side].turn, false));
      round.replies[side].node.append(button);
    }
    if (document.getElementById("tpl-pick-equal")) {
      const button = clone("tpl-pick-equal");
      const side = this.rounds.order(round.number)[0];
      button.addEventListener("click", () => this.onPick(side, round.replies[side].turn, true));
      round.node.append(button);
    }
    this.rounds.follower.follow();
  }

  // A pick is stored: the chat continues with this side's reply.
  stored(side, turn) {
    const round = this.rounds.rounds.find((one) => one.replies[side].turn === turn);
    if (!round) return;
    round.picked = side;
    this.settle(round);
  }

  // Once both replies are complete, remove the one that was not picked, and the buttons.
  settle(round) {
    if (!round.picked || !this.isComplete(round)) return;
    for (const button of round.node.querySelectorAll(".pick")) button.remove();
    round.node.classList.add("settled");
    for (const side of this.sides) {
      const { node } = round.replies[side];
      node.hidden = side !== round.picked;
      node.querySelector(".speaker-name").textContent = this.words.picked;
      node.querySelector(".side-mark").hidden = true;
    }
    this.rounds.follower.follow();
  }

  // Show everything known so far.
  follow() {
    const { opening } = this.rounds;
    if (opening) this.settle(Object.assign(opening, { picked: this.sides[0] })); // both chats have the same opening
    for (const round of this.rounds.rounds) this.settle(round);
    this.show();
  }
}
