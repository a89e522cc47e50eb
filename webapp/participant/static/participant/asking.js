// Pages with questions: initial focus, number keys, and answers that survive a reload until they are saved.

import { likertWire } from "./likert.js";
import { byId, kept } from "./page.js";

// Hidden fields that distinguish pages at the same address: item, pair, attempt.
const PAGE_FIELDS = ["_n", "_of", "_pair", "_quiz", "_attempt"];

const isOwn = (name) => name && name !== "csrfmiddlewaretoken" && !name.startsWith("_");

function draftKey(form) {
  const page = PAGE_FIELDS.map((name) => form.querySelector(`input[name=${name}]`)?.value ?? "");
  return `confab.${location.pathname}.${page.join(".")}`;
}

function draftLoad(form, fields) {
  for (const field of form.elements) {
    if (!isOwn(field.name) || field.type === "submit") continue;
    const values = fields.filter(([name]) => name === field.name).map(([, value]) => value);
    if (field.type === "radio" || field.type === "checkbox") {
      const isChecked = values.includes(field.value);
      if (field.checked === isChecked) continue;
      field.checked = isChecked;
      if (isChecked) field.dispatchEvent(new Event("change", { bubbles: true }));
    } else if (values.length) {
      field.value = values[0];
    }
  }
}

// Answers typed or selected stay in this tab. They are at least as new as those in a rejected form, but older than
// those that the server shows as saved.
function draftWire(form) {
  const key = draftKey(form);
  const store = (isSent) => {
    const fields = [...new FormData(form)].filter(([name]) => isOwn(name));
    kept.set(key, JSON.stringify({ fields, isSent }));
  };
  // The browser's own restored form is older, and Chromium would overwrite the draft with it.
  form.autocomplete = "off";
  const draft = JSON.parse(kept.get(key) || "null");
  if (draft && !(draft.isSent && form.dataset.saved !== undefined)) draftLoad(form, draft.fields);
  form.addEventListener("input", () => store(false));
  form.addEventListener("submit", () => store(true));
}

// A conditional question is shown while its condition holds; the server decides in the same way.
function conditionsWire(form) {
  const boxes = [...form.querySelectorAll("[data-show-when]")];
  const follow = () => {
    for (const box of boxes) {
      const other = byId(box.dataset.showWhen);
      const inputs = other && !other.hidden ? [...other.querySelectorAll("input")] : [];
      const given = inputs.filter(({ type, checked }) => type === "number" || checked).map(({ value }) => value);
      const answers = box.dataset.showAnswers.split("; ");
      box.hidden = !given.some((value) => answers.includes(value));
    }
  };
  form.addEventListener("input", follow);
  if (boxes.length) follow();
}

export function askingWire(form) {
  likertWire(form);
  draftWire(form);
  conditionsWire(form);
  const wrong = byId("summary") ?? document.querySelector(".has-error :is(input, textarea)");
  if (wrong) wrong.focus();
  else byId("title").focus({ preventScroll: true }); // a reload keeps its scroll position
}

// Questions before the task and about the instructions need nothing else.
const alone = byId("questions") ?? byId("quiz");
if (alone) askingWire(alone);
