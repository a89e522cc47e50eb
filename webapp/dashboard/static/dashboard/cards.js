// Lists of cards in the builder: cards are added, moved, duplicated, deleted and restored immediately, and saved like
// every other change. Without this script the same buttons submit to the server.
import { announce } from "./announce.js";

export const words = JSON.parse(document.getElementById("moving-words").textContent);
export const form = document.getElementById("build-form");
let nMade = 0;

export const fill = (text, values) => text.replace(/%\((\w+)\)s/g, (_, name) => values[name]);
const inWords = (list, n, template = "%(n)s") => list[n - 1] ?? fill(template, { n });
const cards = (list) => [...list.querySelectorAll(":scope > [data-card]")];
const titleOf = (card) => card.querySelector("[data-title]").textContent;
const titleField = (card) => field(card, card.dataset.titleField);
const LONGEST_TITLE = 120;
export const field = (card, name) => card.querySelector(`[name$="-${card.dataset.token}-${name}"]`);

function save() {
  form.elements._seen.dispatchEvent(new Event("change", { bubbles: true }));
}

function renumber(list) {
  cards(list).forEach((card, i) => {
    card.querySelector("[data-number]").textContent = i + 1;
  });
  const told = list.closest("[data-questions]").querySelector("[data-summary]");
  const n = cards(list).length;
  if (told) told.textContent = fill(n === 1 ? words.count.one : words.count.other, { n });
}

function moved(card, from) {
  const list = card.parentElement;
  const all = cards(list);
  const to = all.indexOf(card) + 1;
  renumber(list);
  if (to === from) return;
  const place = inWords(words.places, to, words.place);
  announce(fill(words.moved, { n: from, place, of: inWords(words.numbers, all.length) }));
  save();
}

function step(card, by) {
  const all = cards(card.parentElement);
  const from = all.indexOf(card);
  const other = all[from + by];
  if (!other) {
    announce(by < 0 ? words.first : words.last);
    return;
  }
  const focused = document.activeElement;
  if (by < 0) other.before(card);
  else other.after(card);
  focused.focus(); // moving an element removes its focus
  moved(card, from + 1);
}

// A card from a template, with its own names and ids.
function made(html, list) {
  nMade += 1;
  const token = `n${Date.now().toString(36)}${nMade}`;
  const holder = document.createElement("template");
  holder.innerHTML = html.replaceAll("NEWCARD", token);
  const card = holder.content.querySelector("[data-card]");
  const key = field(card, "key");
  if (key && cards(list).some((other) => field(other, "key").value === key.value)) key.value = "";
  return card;
}

function open(card, { select = false } = {}) {
  card.querySelector("details").open = true;
  const title = titleField(card);
  title.focus();
  if (select) title.select();
}

function add(button) {
  const section = button.closest("[data-questions]");
  const list = section.querySelector("[data-list]");
  const found = [...section.querySelectorAll(`template[data-new="${button.value}"]`)];
  const fresh = found.map((one) => made(one.innerHTML, list));
  list.append(...fresh);
  renumber(list);
  button.closest(".q-sets")?.removeAttribute("open");
  open(fresh[0], { select: fresh.length === 1 });
  announce(fresh.length === 1 ? words.added : fill(words.added_many, { n: fresh.length }));
  save();
}

function duplicate(card) {
  const { token } = card.dataset;
  // Values are properties, but a copy is made from attributes.
  for (const input of card.querySelectorAll("input, textarea, option")) {
    if (input.tagName === "OPTION") input.toggleAttribute("selected", input.selected);
    else if (input.tagName === "TEXTAREA") input.textContent = input.value;
    else if (input.type === "checkbox" || input.type === "radio") input.toggleAttribute("checked", input.checked);
    else input.setAttribute("value", input.value);
  }
  const list = card.parentElement;
  const copy = made(card.outerHTML.replaceAll(token, "NEWCARD"), list);
  for (const name of ["key", "was"]) {
    const input = field(copy, name);
    if (input) input.value = "";
  }
  delete copy.dataset.previewField;
  card.querySelector("details").open = false;
  card.after(copy);
  renumber(list);
  open(copy, { select: true });
  save();
}

// A deleted question can be restored until the page is left.
function remove(card) {
  const list = card.parentElement;
  const row = document.createElement("li");
  row.className = "q-undo";
  const said = document.createElement("span");
  said.textContent = fill(words.deleted, { title: titleOf(card) });
  const undo = document.createElement("button");
  undo.type = "button";
  undo.className = "button button-small";
  undo.textContent = words.undo;
  undo.addEventListener("click", () => {
    row.replaceWith(card);
    renumber(list);
    open(card);
    announce(fill(words.undone, { title: titleOf(card) }));
    save();
  });
  row.append(said, undo);
  card.replaceWith(row);
  renumber(list);
  undo.focus();
  announce(said.textContent);
  save();
}

form.addEventListener("click", (event) => {
  const button = event.target.closest('button[name="_do"]');
  if (!button) return;
  const verb = button.value.split(":")[0];
  if (verb === "undo") return; // undo of a deletion without script: the server has it
  event.preventDefault();
  const card = button.closest("[data-card]");
  if (verb === "add" || verb === "set") add(button);
  else if (verb === "up") step(card, -1);
  else if (verb === "down") step(card, 1);
  else if (verb === "duplicate") duplicate(card);
  else if (verb === "delete") remove(card);
});

// The title of a folded card comes from its title field.
form.addEventListener("input", ({ target }) => {
  const card = target.closest("[data-card]");
  if (!card || target !== titleField(card)) return;
  const text = target.value.trim() || words.unnamed;
  const shown = text.length > LONGEST_TITLE ? `${text.slice(0, LONGEST_TITLE - 1)}…` : text;
  for (const place of card.querySelectorAll("[data-title]")) place.textContent = shown;
});

document.addEventListener("build:refused", () => {
  const wrong = form.querySelector("[data-card] .has-error");
  for (let box = wrong?.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
});

// Dragging by the grip with a mouse, pen or finger: the card is shown at its new position.
let held = null;
form.addEventListener("pointerdown", (event) => {
  const grip = event.target.closest("[data-grip]");
  if (!grip || event.button > 0) return;
  const card = grip.closest("[data-card]");
  held = { card, grip, from: cards(card.parentElement).indexOf(card) + 1 };
  grip.setPointerCapture(event.pointerId);
  card.classList.add("is-held");
  event.preventDefault();
});
form.addEventListener("pointermove", (event) => {
  if (!held) return;
  const { card } = held;
  for (const other of cards(card.parentElement)) {
    if (other === card) continue;
    const box = other.getBoundingClientRect();
    const middle = box.top + box.height / 2;
    const isBefore = card.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_PRECEDING;
    if (isBefore && event.clientY < middle) {
      other.before(card);
      break;
    }
    if (!isBefore && event.clientY > middle) other.after(card);
  }
});
const drop = () => {
  if (!held) return;
  const { card, from } = held;
  held = null;
  card.classList.remove("is-held");
  moved(card, from);
};
form.addEventListener("pointerup", drop);
form.addEventListener("pointercancel", drop);
