// The reader: J and K move between turns, arrows between conversations.
import { copyButtonsAdd } from "../core/markdown.js";

const STORED = "confab-reader-keys";
let keysAreOn = true;
let list = null;
try {
  keysAreOn = localStorage.getItem(STORED) !== "off";
} catch {
  // Without storage the choice applies to this page only.
}

// Single keys work only if they are switched on and no control or text field has the focus.
export function readerKeysMayAct(event) {
  if (!keysAreOn || event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return false;
  return !event.target.closest?.("input, textarea, select, [contenteditable], dialog");
}

const turnsOf = () => [...(list?.querySelectorAll("[data-turn]") ?? [])];

function choose(turn) {
  for (const one of turnsOf()) {
    const chosen = one === turn;
    one.classList.toggle("is-chosen", chosen);
    const link = one.querySelector("[data-turn-link]");
    if (chosen) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const box of document.querySelectorAll("[data-turn-values]")) {
    box.hidden = box.dataset.turnValues !== turn.dataset.turn;
  }
  const address = new URL(location.href);
  address.searchParams.set("turn", turn.dataset.turn);
  history.replaceState(null, "", address);
  turn.querySelector("[data-turn-link]").focus();
  turn.scrollIntoView({ block: "nearest" });
}

// Set up the turns of a page, or of a replaced part of it.
export function readerStart(root = document) {
  list = root.querySelector("[data-turns]");
  copyButtonsAdd(root);
  for (const turn of turnsOf()) {
    turn.querySelector("[data-turn-link]").addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      choose(turn);
    });
  }
  for (const box of root.querySelectorAll("[data-keys]")) {
    box.checked = keysAreOn;
    box.addEventListener("change", () => {
      keysAreOn = box.checked;
      try {
        localStorage.setItem(STORED, keysAreOn ? "on" : "off");
      } catch {
        // As above.
      }
    });
  }
}

readerStart();
document.addEventListener("keydown", (event) => {
  if (!readerKeysMayAct(event)) return;
  const turns = turnsOf();
  const now = turns.findIndex((turn) => turn.classList.contains("is-chosen"));
  const step = { j: 1, k: -1 }[event.key.toLowerCase()];
  if (step && turns[now + step]) {
    event.preventDefault();
    choose(turns[now + step]);
  }
  const way = { ArrowLeft: "[data-previous]", ArrowRight: "[data-next]" }[event.key];
  // Inside the list, arrow keys belong to the list.
  if (way && !event.target.closest?.("[data-rows], [role=region], table")) document.querySelector(way)?.click();
});
