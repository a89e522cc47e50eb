// The rating form next to its conversation, in which voting is still possible.

import { askingWire } from "./asking.js";
import { byId } from "./page.js";
import { reportsOpen } from "./report_links.js";
import { Socket, socketAddress } from "./socket.js";
import { Votes } from "./votes.js";

const main = byId("main");
reportsOpen();

// Next to the form on wide windows, folded above it on phones.
const fold = byId("conversation");
const wide = matchMedia("(min-width: 700px)");
function foldFollow() {
  fold.open = wide.matches;
  fold.querySelector("summary").tabIndex = wide.matches ? -1 : 0;
}
wide.addEventListener("change", foldFollow);
foldFollow();

askingWire(byId("rating"));

// Votes use the chat's own socket. The form also works without it.
const groups = new Map();
const say = (text) => {
  byId("status").textContent = text;
};
const socket = new Socket(socketAddress(main.dataset.ws, main.dataset.token), {
  open() {},
  down() {
    for (const votes of groups.values()) votes.refused();
  },
  frame(frame) {
    if (frame.type === "history") {
      socket.settled();
      for (const { turn, vote } of frame.turns) groups.get(turn)?.confirm(vote);
      for (const group of document.querySelectorAll(".votes")) group.hidden = false;
      document.querySelector(".votes-hint").hidden = false;
    } else if (frame.type === "vote") {
      groups.get(frame.turn)?.confirm(frame.value);
    } else if (frame.type === "error" && frame.code !== "bot_failed") {
      for (const votes of groups.values()) votes.refused();
      say(frame.message);
      if (frame.code === "not_found" || frame.code === "moved") socket.end();
    }
  },
});
for (const group of document.querySelectorAll(".votes")) {
  const turn = Number(group.dataset.turn);
  const cast = (number, value) => socket.send({ type: "vote", turn: number, value });
  groups.set(turn, new Votes(group, turn, Number(group.dataset.vote), cast));
}
