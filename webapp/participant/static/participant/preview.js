// Loaded first in a previewed participant's page: nothing is sent, stored or followed outside, the focus stays where
// the researcher is editing, and a chat talks to itself. The page's policy also forbids forms and connections.

import { SampleSocket } from "./preview_socket.js";

const told = JSON.parse(document.querySelector("meta[name=confab-preview]").content);
const isFramed = window.parent !== window;

SampleSocket.told = told;
window.WebSocket = SampleSocket;

// A report is accepted as if it were stored.
window.fetch = async () => new Response('{"saved": true}');

// Nothing typed here stays in the browser, and navigation here adds no history entries.
Storage.prototype.setItem = () => {};
Storage.prototype.getItem = () => null;
History.prototype.pushState = () => {};

// A page displayed next to a form must not take its focus; a page in use may move it.
let isUsed = !isFramed;
for (const kind of ["pointerdown", "keydown"]) {
  addEventListener(kind, (event) => { isUsed ||= event.isTrusted; }, { capture: true });
}
const focus = HTMLElement.prototype.focus;
HTMLElement.prototype.focus = function focusIfUsed(options) {
  if (isUsed) focus.call(this, options);
};

const go = (address) => location.replace(address);
const isPreview = (address) =>
  address.origin === location.origin && address.pathname.startsWith(`${told.root}preview/`);

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  if (isPreview(new URL(link.href))) go(link.href);
});

const ENDS = { finish: "bot_failed", withdraw: "withdrawn", decline: "no_consent" };
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method === "dialog") return;
  event.preventDefault();
  const way = new URL(form.action).pathname.split("/").at(-2);
  const next = ENDS[way] ? told.done.replace("OUTCOME", ENDS[way]) : told.next;
  if (next) go(next);
});

// The field edited next to it: a value marked by `data-field`, or a question by its key.
function found(name) {
  const value = CSS.escape(name);
  return (
    document.querySelector(`[data-field~="${value}"]`) ??
    document.getElementById(`q-${name}`) ??
    document.querySelector(`[name="${value}"], [name="question_${value}"]`)?.closest("fieldset, .field")
  );
}

function outline(name) {
  document.querySelector(".preview-edited")?.classList.remove("preview-edited");
  const element = name && found(name);
  if (!element) return;
  element.closest("details")?.setAttribute("open", "");
  const section = element.closest("#about, #how");
  if (section?.hidden) show(section.id);
  element.classList.add("preview-edited");
  // Not scrollIntoView, which would also scroll the page around the frame.
  const box = element.getBoundingClientRect();
  const top = Math.max(0, scrollY + box.top - Math.max(16, (innerHeight - box.height) / 2));
  scrollTo(0, top);
}

// The first page shows one of its two halves; it listens to this.
function show(half) {
  dispatchEvent(new PopStateEvent("popstate", { state: { step: half } }));
}

// Next to the builder, a text that can be edited there opens its field, by a click or by its button.
const EDITED = "[data-field], [id^='q-']";

function edit(element) {
  const names = element.dataset.field?.split(" ") ?? [element.id.slice(2)];
  parent.postMessage({ edit: names }, location.origin);
}

function editStart() {
  for (const element of document.querySelectorAll(EDITED)) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "preview-edit";
    button.lang = "en";
    button.textContent = "Edit";
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      edit(element);
    });
    if (element.matches("details, fieldset")) element.after(button);
    else (element.matches("ol, ul") ? element.firstElementChild : element).append(button);
  }
  document.addEventListener("click", ({ target }) => {
    const element = target.closest(EDITED);
    if (element && !target.closest("a, button, input, label, select, summary, textarea")) edit(element);
  });
}

addEventListener("message", ({ origin, data }) => {
  if (origin === location.origin && typeof data?.focus === "string") outline(data.focus);
});

addEventListener("DOMContentLoaded", () => {
  document.documentElement.classList.add("preview");
  document.getElementById("auto")?.remove(); // a preview never redirects
  for (const link of document.querySelectorAll("a[target]")) link.removeAttribute("target");
  if (isFramed) editStart();
  if (told.step === "instructions" && document.getElementById("how")) show("how");
  outline(told.focus);
});
