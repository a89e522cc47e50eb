// Replies to sort: dragged by the handle, moved by buttons or arrow keys. The order is written to the rows of letters,
// which are the form's fields and stay for browsers without this script.

import { byId, fill } from "./page.js";

const list = byId("ranking");
const state = byId("ranking-state");
const keep = byId("ranking-keep");
const entries = () => [...list.children];
const fields = (place) => [...document.querySelectorAll(`#ranking-rows input[name=rank_${place + 1}]`)];

// The letters by place, as far as the form has them: stored, sent, or of this tab's draft.
function lettersRead() {
  const n = entries().length;
  return [...Array(n).keys()].map((place) => fields(place).find(({ checked }) => checked)?.value ?? "");
}

function numbersDraw() {
  for (const [index, entry] of entries().entries()) {
    entry.querySelector(".ranking-place").textContent = index + 1;
    // A disabled button would lose the focus that has just moved its text.
    entry.querySelector("[data-move=up]").setAttribute("aria-disabled", index === 0);
    entry.querySelector("[data-move=down]").setAttribute("aria-disabled", index === list.children.length - 1);
  }
}

function orderStore(words) {
  for (const [place, entry] of entries().entries()) {
    for (const radio of fields(place)) radio.checked = radio.value === entry.dataset.side;
  }
  list.closest("form").dispatchEvent(new Event("input", { bubbles: true })); // it is part of the draft
  state.textContent = words;
  keep.classList.add("is-done");
  numbersDraw();
}

function placeSay(entry) {
  const values = { text: entry.dataset.title, n: entries().indexOf(entry) + 1, of: list.children.length };
  orderStore(fill(state.dataset.moved, values));
}

// Put a text at an index by moving the others: what is moved itself would lose its focus and a captured pointer.
function entryPut(entry, index) {
  for (let at = entries().indexOf(entry); at > index; at -= 1) {
    list.insertBefore(entry.previousElementSibling, entry.nextElementSibling);
  }
  for (let at = entries().indexOf(entry); at < index; at += 1) list.insertBefore(entry.nextElementSibling, entry);
}

function entryMove(entry, index) {
  if (index === entries().indexOf(entry) || index < 0 || index >= list.children.length) return;
  entryPut(entry, index);
  placeSay(entry);
  entry.scrollIntoView({ block: "nearest" });
}

list.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-move]");
  if (!button || button.dataset.move === "handle") return;
  const entry = button.closest("li");
  entryMove(entry, entries().indexOf(entry) + (button.dataset.move === "up" ? -1 : 1));
});

list.addEventListener("keydown", (event) => {
  if (!event.target.matches("[data-move=handle]") || event.ctrlKey || event.metaKey || event.altKey) return;
  const entry = event.target.closest("li");
  const at = entries().indexOf(entry);
  const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: list.children.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  entryMove(entry, to);
});

// A text follows the pointer as soon as the pointer passes the middle of its neighbour. Escape puts it back.
function dragStart(entry, handle, { pointerId }) {
  const before = entries();
  const listening = new AbortController();
  const listen = (target, type, listener) => target.addEventListener(type, listener, { signal: listening.signal });
  const middle = (other) => {
    const { top, height } = other.getBoundingClientRect();
    return top + height / 2;
  };
  const end = (isKept) => {
    listening.abort();
    entry.classList.remove("is-dragged");
    if (isKept && entries().some((other, index) => other !== before[index])) placeSay(entry);
    if (isKept) return;
    list.append(...before);
    handle.focus({ preventScroll: true });
    numbersDraw();
  };
  entry.classList.add("is-dragged");
  handle.setPointerCapture(pointerId);
  listen(handle, "pointermove", ({ clientY }) => {
    const [previous, next] = [entry.previousElementSibling, entry.nextElementSibling];
    const at = entries().indexOf(entry);
    if (previous && clientY < middle(previous)) entryPut(entry, at - 1);
    else if (next && clientY > middle(next)) entryPut(entry, at + 1);
    numbersDraw();
  });
  listen(handle, "pointerup", () => end(true));
  listen(handle, "pointercancel", () => end(false));
  listen(document, "keydown", ({ key }) => key === "Escape" && end(false));
}

list.addEventListener("pointerdown", (event) => {
  const handle = event.target.closest("[data-move=handle]");
  if (handle && event.isPrimary && event.button === 0) dragStart(handle.closest("li"), handle, event);
});

keep.addEventListener("click", () => {
  orderStore(state.dataset.kept);
  list.focus({ preventScroll: true });
});

const letters = lettersRead();
const isSet = new Set(letters).size === letters.length && !letters.includes("");
if (isSet) list.append(...letters.map((side) => list.querySelector(`li[data-side=${side}]`)));
for (const part of document.querySelectorAll(".ranking-tools, .ranking-state, #ranking-how")) part.hidden = false;
byId("ranking-rows").hidden = true;
keep.classList.toggle("is-done", isSet);
state.textContent = isSet ? state.dataset.set : state.dataset.none;
numbersDraw();
