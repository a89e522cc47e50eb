// The builder: sends every change, and shows the outcome next to the button and the field.
import { announce } from "./announce.js";
import { askStart, presetsStart } from "./build_bots.js";
import { codesStart } from "./build_codes.js";

const SOON_MS = 900;
const AGAIN_MS = 5000;

const form = document.querySelector("form[data-build]");
stepShow();
clockShow();
fieldShow();
askStart();
presetsStart();
codesStart();
if (form) follow(form);
for (const button of document.querySelectorAll('[aria-disabled="true"]')) {
  button.addEventListener("click", (event) => {
    event.preventDefault();
    announce(document.querySelector(`#${button.getAttribute("aria-describedby")}`)?.textContent ?? "");
  });
}

// If the row of steps is wider than the window, scroll the current one into view.
function stepShow() {
  const now = document.querySelector(".build-steps [aria-current]");
  const row = now?.closest("ol");
  if (row) row.scrollLeft = now.offsetLeft - row.offsetLeft - (row.clientWidth - now.clientWidth) / 2;
}

// An address that names a field opens it, even if it is folded away.
function fieldShow() {
  const field = location.hash.startsWith("#id_") && document.getElementById(location.hash.slice(1));
  if (!field) return;
  for (let box = field.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  field.focus();
}

// Times in the reader's own time zone.
function clockShow() {
  const box = document.querySelector("[data-saved]");
  const time = box?.querySelector("time");
  const words = box?.querySelector("[data-saved-words]");
  if (!time || !words) return;
  const at = new Date(time.dateTime);
  const today = at.toDateString() === new Date().toDateString();
  const shown = at.toLocaleString([], {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    ...(today ? {} : { day: "numeric", month: "short" }),
  });
  words.textContent = words.dataset.template.replace("{at}", shown).replace("{n}", time.dataset.version);
}

function follow(form) {
  const box = document.querySelector("[data-saved]");
  let timer = null;
  let changes = 0;
  let sent = 0;
  let busy = false;
  let held = false; // a conflict is open: nothing is sent until it is resolved

  const later = (ms) => {
    clearTimeout(timer);
    timer = setTimeout(send, ms);
  };
  const changed = (soon) => {
    changes += 1;
    if (!held) later(soon ? 0 : SOON_MS);
  };

  async function send() {
    if (busy || held || sent === changes) return;
    busy = true;
    const mine = changes;
    say(box.dataset.busy, "");
    try {
      const answer = await fetch(location.href, {
        method: "POST",
        headers: { Accept: "application/json" },
        body: new FormData(form),
        keepalive: true,
      });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      const found = await answer.json();
      sent = mine;
      show(found);
    } catch {
      say(box.dataset.away, "bad");
      later(AGAIN_MS);
    } finally {
      busy = false;
    }
    if (changes !== mine && !held) later(SOON_MS);
  }

  function show(found) {
    errorsShow(found.errors);
    if (found.live) {
      const page = new DOMParser().parseFromString(found.live, "text/html");
      document.querySelector("[data-live-part]")?.replaceChildren(...page.body.childNodes);
    }
    for (const [name, state] of Object.entries(found.steps)) {
      const link = document.querySelector(`[data-step="${name}"]`);
      if (!link) continue;
      link.className = `step-${state.tone}`;
      link.querySelector("[data-step-state]").textContent = state.words;
    }
    if (found.conflict) {
      held = true;
      const place = document.querySelector("[data-conflict-place]");
      const page = new DOMParser().parseFromString(found.conflict, "text/html");
      place.replaceChildren(...page.body.childNodes);
      say(box.dataset.conflicting, "bad");
      return;
    }
    if (!found.saved) {
      document.dispatchEvent(new CustomEvent("build:refused"));
      return say(box.dataset.refused, "bad");
    }
    form.elements._seen.value = found.seen;
    const time = box.querySelector("time");
    time.dateTime = found.at;
    time.dataset.version = found.version;
    say("", "");
    clockShow();
    document.dispatchEvent(new CustomEvent("build:saved", { detail: found }));
  }

  function errorsShow(errors) {
    for (const field of form.querySelectorAll("[data-field]")) {
      const told = errors[field.dataset.field] ?? [];
      const place = field.querySelector("[data-errors]");
      field.classList.toggle("has-error", told.length > 0);
      place.replaceChildren(...told.map(paragraph));
      const input = field.querySelector("input, textarea, select");
      if (told.length) input?.setAttribute("aria-invalid", "true");
      else input?.removeAttribute("aria-invalid");
    }
    form.querySelector("[data-form-errors]").replaceChildren(...(errors.__all__ ?? []).map(paragraph));
  }

  function say(text, tone) {
    box.classList.toggle("is-bad", tone === "bad");
    if (text) box.querySelector("[data-saved-words]").textContent = text;
  }

  form.addEventListener("input", (event) => {
    if (event.target.name) changed(false);
  });
  form.addEventListener("change", (event) => {
    if (event.target.name) changed(true);
  });
  form.addEventListener("submit", () => {
    clearTimeout(timer);
    held = true;
  });
  // Changes made before this script loaded are sent, too. After going back or reloading, the browser restores values
  // that may be older than the server's: these wait for the next change.
  const { type } = performance.getEntriesByType("navigation")[0];
  if (type === "navigate" && [...form.elements].some(isChanged)) changed(true);
}

function isChanged(field) {
  if (!field.name) return false;
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") {
    const first = [...field.options].find((option) => option.defaultSelected) ?? field.options[0];
    return Boolean(first) && field.value !== first.value;
  }
  return field.defaultValue !== undefined && field.type !== "hidden" && field.value !== field.defaultValue;
}

function paragraph(text) {
  const made = document.createElement("p");
  made.className = "field-error";
  made.textContent = text;
  return made;
}

// With another language, unedited texts change too: reload them once it is saved.
document.getElementById("id_language")?.addEventListener("change", () => {
  document.addEventListener("build:saved", () => location.reload(), { once: true });
});
