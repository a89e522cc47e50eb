// A study's questions: titles of their cards (cards.js), and labels of scale points.
import { field, fill, form, words } from "./cards.js";

// A card's title follows its content.
form.addEventListener("input", ({ target }) => {
  const card = target.closest("[data-card]");
  if (!card) return;
  if (target === field(card, "span")) spanFollow(card);
  if (target === field(card, "between")) {
    card.querySelector("[data-words]").hidden = !target.value;
  }
  pillFollow(card);
});

function pillFollow(card) {
  const pill = card.querySelector("[data-pill]");
  const span = field(card, "span");
  pill.dataset.what ??= pill.textContent.replace(fill(words.optional, { what: "" }), "");
  const what = span?.selectedOptions ? span.selectedOptions[0].textContent : pill.dataset.what;
  pill.textContent = field(card, "required").checked ? what : fill(words.optional, { what });
}

// Other points have other labels: labels entered for a point stay with it.
function spanFollow(card) {
  const [low, high] = field(card, "span").value.split(":").map(Number);
  const last = field(card, "high_words").closest("[data-field]");
  const label = (box, point) => {
    box.querySelector("label").textContent = fill(words.words_under, { point });
  };
  label(field(card, "low_words").closest("[data-field]"), low);
  label(last, high);
  const place = card.querySelector("[data-words]");
  const written = new Map();
  for (const input of place.querySelectorAll("input")) written.set(input.name, input.value);
  const boxes = [];
  for (let point = low + 1; point < high && high - low <= 10; point += 1) {
    const holder = document.createElement("template");
    holder.innerHTML = last.outerHTML.replaceAll("high_words", `word_${point}`);
    const box = holder.content.firstElementChild;
    const input = box.querySelector("input");
    input.value = written.get(input.name) ?? "";
    label(box, point);
    boxes.push(box);
  }
  place.replaceChildren(...boxes);
}

// The server creates keys that were not entered.
document.addEventListener("build:saved", ({ detail }) => {
  for (const [prefix, key] of Object.entries(detail.keys ?? {})) {
    const card = document.getElementById(`card-${prefix}`);
    if (!card) continue;
    const input = field(card, "key");
    const was = field(card, "was");
    if (input.value === was.value) {
      input.value = key;
      was.value = key;
    }
    card.dataset.previewField = key;
  }
  // The edited question now has its name: outline it in the preview.
  const now = document.activeElement;
  if (now?.closest("[data-card]")) now.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
});
