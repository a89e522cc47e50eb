// Entry: consent first, instructions as a second step of the same page. Without scripts one is below the other. Also
// used on the refusal page, for its local times.

import { byId } from "./page.js";

const about = byId("about");
const how = byId("how");

function show(step) {
  about.hidden = step === "how";
  how.hidden = step !== "how";
  document.querySelector(".last p").hidden = false;
}

// Boxes that must be ticked: for the content notice, if any, and for the consent.
const boxes = ["notice", "consent"].map(byId).filter(Boolean);

function ticked(box) {
  const missing = !box.checked;
  byId(`${box.id}-error`).hidden = !missing;
  byId(`${box.id}-field`).classList.toggle("has-error", missing);
  if (missing) box.setAttribute("aria-invalid", "true");
  else box.removeAttribute("aria-invalid");
  return !missing;
}

function consentGiven() {
  const missing = boxes.filter((box) => !ticked(box));
  missing[0]?.focus();
  return !missing.length;
}

function go(step) {
  show(step);
  scrollTo(0, 0);
  byId(step === "how" ? "how-title" : "title").focus();
}

// If the study needs another device, disable Continue and show the link.
function deviceFollow() {
  const { leastWidth, needsKeyboard } = byId("device").dataset;
  const isNarrow = innerWidth < Number(leastWidth);
  const isTouch = needsKeyboard !== undefined && matchMedia("(hover: none) and (pointer: coarse)").matches;
  byId("device-width").hidden = !isNarrow || isTouch;
  byId("device-keyboard").hidden = !isTouch;
  byId("device").hidden = !isNarrow && !isTouch;
  byId("continue").disabled = isNarrow || isTouch;
}

if (byId("device")) {
  deviceFollow();
  addEventListener("resize", deviceFollow);
}

if (about && how) {
  document.querySelector("form").classList.add("stepwise");
  document.querySelector(".next").hidden = false;
  byId("back").hidden = false;
  show("about");
  // Only one of the two is visible; each is the first heading of its view.
  byId("how-title").setAttribute("role", "heading");
  byId("how-title").setAttribute("aria-level", "1");
  byId("continue").addEventListener("click", () => {
    if (!consentGiven()) return;
    history.pushState({ step: "how" }, "");
    go("how");
  });
  for (const box of boxes) {
    box.addEventListener("change", () => {
      if (!byId(`${box.id}-error`).hidden) ticked(box);
    });
  }
  byId("back").addEventListener("click", () => {
    if (history.state?.step === "how") history.back();
    else go("about");
  });
  addEventListener("popstate", (event) => go(event.state?.step === "how" ? "how" : "about"));
  // The button is where Continue was: the second click of a double click would skip the instructions.
  byId("start")?.addEventListener("click", (event) => {
    if (event.detail > 1) event.preventDefault();
  });
  document.querySelector("form").addEventListener(
    "submit",
    (event) => {
      // Capture: before the busy button of page.js looks.
      if (consentGiven()) return;
      event.preventDefault();
      go("about");
      boxes.find((box) => !box.checked).focus();
    },
    { capture: true },
  );
}
