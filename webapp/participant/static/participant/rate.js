// The rating form: drafts that outlive a reload, votes that are still open.

import { likertWire } from "./likert.js";
import { byId, kept } from "./page.js";
import "./report.js";
import { Socket, socketAddress } from "./socket.js";
import { Votes } from "./votes.js";

const main = byId("main");
const form = byId("rating");
const draftKey = `confab.${main.dataset.conversation}.rating`;

// Beside the form on wide windows, folded above it on phones.
const fold = byId("conversation");
const wide = matchMedia("(min-width: 700px)");
function foldFollow() {
  fold.open = wide.matches;
  fold.querySelector("summary").tabIndex = wide.matches ? -1 : 0;
}
wide.addEventListener("change", foldFollow);
foldFollow();

// Drafts: what was chosen or written here stays until it is saved. It is at least as new as what the
// server gives back of a form that it could not take.
const isOwn = (name) => name !== "csrfmiddlewaretoken" && !name.startsWith("_");

function draftStore() {
  kept.set(draftKey, JSON.stringify([...new FormData(form)].filter(([name]) => isOwn(name))));
}

function draftLoad() {
  const text = kept.get(draftKey);
  if (!text) return;
  for (const [name, value] of JSON.parse(text)) {
    for (const field of form.querySelectorAll(`[name="${CSS.escape(name)}"]`)) {
      if (field.type === "radio" || field.type === "checkbox") field.checked = field.value === value || field.checked;
      else field.value = value;
    }
  }
}

// The browser's own memory of the form is older, and Chromium would put it over the draft.
form.autocomplete = "off";
draftLoad();
form.addEventListener("input", draftStore);
likertWire(form, draftStore);

// Votes by the chat's own socket. Without it the form works all the same.
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
