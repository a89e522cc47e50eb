// “Report this reply”: links marked by `data-report` open one dialog, whose form is sent without leaving the page.

import { byId } from "./page.js";

const clone = (id) => byId(id)?.content.firstElementChild.cloneNode(true);

let opener = null;

// The link beside a reply that came by a socket; null where the study takes no reports.
export function reportLink(address, turn, isReported) {
  const link = clone("tpl-report");
  if (!link || !address) return null;
  const url = new URL(address, location.href);
  url.searchParams.set("turn", turn);
  link.href = url.href;
  if (isReported) markDone(link);
  return link;
}

export const numbersIn = (text) => new Set((text ?? "").split(" ").filter(Boolean).map(Number));

function markDone(link) {
  const { done, doneLabel } = byId("report").dataset;
  link.classList.add("is-reported");
  link.querySelector("span").textContent = done;
  link.setAttribute("aria-label", doneLabel);
}

// What the reply says stands in the dialog, so that nobody reports another one by mistake.
function saidShow(link) {
  const around = link.closest("[data-reply-text], li, .msg, section");
  const lines = [...around.querySelectorAll("[data-line]")];
  const choice = byId("report-line");
  choice.replaceChildren(
    ...lines.map((line, i) => {
      const said = line.textContent.trim() || line.querySelector("img")?.alt;
      return new Option(`${i + 1}: ${said.slice(0, 60)}`, i + 1);
    }),
  );
  byId("report-line-field").hidden = lines.length < 2;
  const text = around.querySelector(".bubble, .judged-text")?.textContent.trim() ?? "";
  byId("report-said").textContent = text;
  byId("report-said").hidden = lines.length > 0 || !text;
}

function errorShow(words) {
  byId("report-error").hidden = !words;
  byId("report-error").querySelector("span").textContent = words;
}

function open(link) {
  opener = link;
  const form = byId("report-form");
  form.reset();
  form.action = link.href;
  form.hidden = false;
  byId("report-sent").hidden = true;
  errorShow("");
  saidShow(link);
  byId("report").showModal();
}

async function send(form) {
  const dialog = byId("report");
  let found = { saved: false, error: "" };
  try {
    const answer = await fetch(form.action, {
      method: "POST",
      body: new FormData(form),
      headers: { Accept: "application/json" },
    });
    found = await answer.json();
  } catch {
    // Said below: nothing came back, or nothing that can be read.
  }
  if (!found.saved) {
    errorShow(found.error || dialog.dataset.failed);
    return;
  }
  if (opener) markDone(opener);
  form.hidden = true;
  byId("report-sent").hidden = false;
  byId("report-thanks").textContent = byId("report-thanks").dataset.words;
  byId("report-sent").querySelector("button").focus();
}

function reportWire() {
  const dialog = byId("report");
  if (!dialog) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-report]");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    open(link);
  });
  byId("report-form").addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    send(event.target);
  });
  byId("report-cancel").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => opener?.focus());
}

reportWire();
