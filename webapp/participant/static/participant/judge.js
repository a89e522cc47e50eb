// Judging: everything works without this; with it numbers choose by their keys.

import { likertWire } from "./likert.js";
import { byId } from "./page.js";

likertWire(byId("rating"));
if (!byId("summary")) byId("title").focus();

// The known reply's score: a change is said beside it at once.
const note = byId("score-note");
if (note) {
  for (const radio of document.querySelectorAll("input[name=reference_score]")) {
    radio.addEventListener("change", () => {
      const isKnown = radio.value === note.dataset.known;
      note.textContent = isKnown ? "" : note.dataset.template.replace("%(n)s", radio.value);
    });
  }
}

// How many are chosen of how many.
const count = byId("chosen-count");
if (count) {
  byId("rating").addEventListener("change", () => {
    const chosen = document.querySelectorAll("input[name=chosen]:checked").length;
    const words = count.dataset.template.replace("%(wanted)s", count.dataset.exactly);
    count.textContent = words.replace("%(n)s", chosen);
  });
}
