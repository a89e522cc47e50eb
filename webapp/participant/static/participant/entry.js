// Entry: consent first, instructions as a second step of the same page. Without script the two
// simply stand below each other. Also the refusal page, for its local times.

import { byId } from "./page.js";

const about = byId("about");
const how = byId("how");

function show(step) {
  about.hidden = step === "how";
  how.hidden = step !== "how";
  document.querySelector(".last p").hidden = false;
}

function consentGiven() {
  const box = byId("consent");
  const missing = !box.checked;
  byId("consent-error").hidden = !missing;
  byId("consent-field").classList.toggle("has-error", missing);
  if (missing) {
    box.setAttribute("aria-invalid", "true");
    box.focus();
  } else {
    box.removeAttribute("aria-invalid");
  }
  return !missing;
}

function go(step) {
  show(step);
  scrollTo(0, 0);
  byId(step === "how" ? "how-title" : "title").focus();
}

if (about && how) {
  document.querySelector("form").classList.add("stepwise");
  document.querySelector(".next").hidden = false;
  byId("back").hidden = false;
  show("about");
  byId("continue").addEventListener("click", () => {
    if (!consentGiven()) return;
    history.pushState({ step: "how" }, "");
    go("how");
  });
  byId("consent").addEventListener("change", () => {
    if (!byId("consent-error").hidden) consentGiven();
  });
  byId("back").addEventListener("click", () => {
    if (history.state?.step === "how") history.back();
    else go("about");
  });
  addEventListener("popstate", (event) => go(event.state?.step === "how" ? "how" : "about"));
  document.querySelector("form").addEventListener(
    "submit",
    (event) => {
      // Capture: before the busy button of page.js looks.
      if (consentGiven()) return;
      event.preventDefault();
      go("about");
      byId("consent").focus();
    },
    { capture: true },
  );
}
