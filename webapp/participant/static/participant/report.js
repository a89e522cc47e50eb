// “Report this reply”: links marked by `data-report` open a dialog whose form is sent without leaving the page.

import { byId, dialogOpen, dialogClose } from "./page.js";

let opener = null;
let markSent = () => {};

// The dialog quotes the reply, so that participants do not report another one by mistake.
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
  dialogOpen(byId("report"));
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
    // Reported below: no response, or an unreadable one.
  }
  if (!found.saved) {
    errorShow(found.error || dialog.dataset.failed);
    return;
  }
  if (opener) markSent(opener);
  form.hidden = true;
  byId("report-sent").hidden = false;
  byId("report-thanks").textContent = byId("report-thanks").dataset.words;
  byId("report-sent").querySelector("button").focus();
}

// Open the dialog instead of following links; `mark` is called with the link of a sent report.
export function reportWire(mark) {
  markSent = mark;
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
  byId("report-cancel").addEventListener("click", () => dialogClose(dialog));
  dialog.addEventListener("close", () => opener?.focus());
}
