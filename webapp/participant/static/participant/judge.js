// Rating pages work without this script; with it, number keys choose answers.

import { askingWire } from "./asking.js";
import { dialoguesWire } from "./dialogues.js";
import { byId } from "./page.js";
import { reportsOpen } from "./report_links.js";
import { spansWire } from "./spans.js";

reportsOpen();

const dialogues = byId("dialogues");
if (dialogues) dialoguesWire(dialogues, byId("rating"));

// The known reply's score: a change is shown next to it immediately.
const note = byId("score-note");
if (note) {
  for (const radio of document.querySelectorAll("input[name=reference_score]")) {
    radio.addEventListener("change", () => {
      const isKnown = radio.value === note.dataset.known;
      note.textContent = isKnown ? "" : note.dataset.template.replace("%(n)s", radio.value);
    });
  }
}

// Number of chosen options, and of required ones.
const count = byId("chosen-count");
if (count) {
  byId("rating").addEventListener("change", () => {
    const chosen = document.querySelectorAll("input[name=chosen]:checked").length;
    const words = count.dataset.template.replace("%(wanted)s", count.dataset.exactly);
    count.textContent = words.replace("%(n)s", chosen);
  });
}

// A text cannot be both the best and the worst: the last choice counts.
for (const ends of document.querySelectorAll(".judged .pair-ends")) {
  ends.addEventListener("input", ({ target }) => {
    for (const input of ends.querySelectorAll("input")) input.checked = input === target;
  });
}

// Labels of one reply: “None of these” and the others clear each other, with an announcement. J and K move between
// replies while the focus is in the list.
const marking = byId("marking");
if (marking) {
  const status = byId("marks-status");
  marking.addEventListener("change", (event) => {
    if (!event.target.checked) return;
    const boxes = [...marking.querySelectorAll("input")].filter((box) => box.name === event.target.name);
    const none = boxes.find((box) => box.value === "_none");
    if (!none) return;
    const others = event.target === none ? boxes.filter((box) => box !== none) : [none];
    const cleared = others.filter((box) => box.checked);
    for (const box of cleared) box.checked = false;
    if (cleared.length) {
      status.textContent = event.target === none ? status.dataset.cleared : status.dataset.none;
    }
  });
  const replies = [...marking.querySelectorAll("[data-reply]")];
  marking.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !/^[jk]$/i.test(event.key)) return;
    if (event.target.matches("select")) return; // there, letter keys choose options
    const at = replies.findIndex((reply) => reply.contains(document.activeElement));
    const next = replies[at + (event.key.toLowerCase() === "j" ? 1 : -1)];
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
}

// Last: restored drafts notify all of the above.
askingWire(byId("rating"));
if (byId("span-text")) spansWire(byId("rating"));
// A draft's changed score is shown; the known one stays behind its button.
const score = document.querySelector("input[name=reference_score]:checked");
if (score && score.value !== note.dataset.known) {
  note.closest(".known-score").querySelector("details").open = true;
}
const marked = byId("c-marked");
if (marked) {
  const isWide = window.matchMedia("(min-width: 700px)").matches;
  marked.scrollIntoView({ block: isWide ? "nearest" : "center" });
}
