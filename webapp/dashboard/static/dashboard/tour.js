// The tour: one step at a time next to the part of the page that it explains. Without this script all steps are listed.
import { announce } from "./announce.js";

const KEPT = "confab-tour"; // the current step, for users who leave and return

function kept() {
  try {
    return Number(localStorage.getItem(KEPT)) || 0;
  } catch {
    return 0;
  }
}

function keep(step) {
  try {
    localStorage.setItem(KEPT, String(step));
  } catch {
    // The browser stores nothing: the tour starts again.
  }
}

export function tourStart() {
  const tour = document.querySelector("[data-tour]");
  if (!tour) return;
  const steps = [...tour.querySelectorAll("[data-tour-at]")].filter((step) => {
    const isThere = document.querySelector(step.dataset.tourAt) !== null;
    if (!isThere) step.remove();
    return isThere;
  });
  const [back, next] = ["back", "next"].map((way) => tour.querySelector(`[data-tour-${way}]`));
  const count = tour.querySelector("[data-tour-count]");
  const leave = tour.querySelector("[data-tour-leave]");
  let at = Math.min(kept(), steps.length - 1);
  let shown = null;

  function place() {
    const box = shown.getBoundingClientRect();
    const below = box.bottom + 12;
    const room = innerHeight - tour.offsetHeight - 16;
    // Below the explained part, above it if there is no room, otherwise at the bottom of the window.
    const above = box.top - tour.offsetHeight - 12;
    tour.style.top = `${below <= room ? below : above >= 16 ? above : Math.max(16, room)}px`;
    const widest = document.documentElement.clientWidth - tour.offsetWidth - 16;
    tour.style.left = `${Math.max(16, Math.min(box.left, widest))}px`;
  }

  function show(step, takesFocus = true) {
    shown?.classList.remove("tour-at");
    at = step;
    keep(at);
    steps.forEach((one, i) => (one.hidden = i !== at));
    shown = document.querySelector(steps[at].dataset.tourAt);
    shown.classList.add("tour-at");
    back.hidden = at === 0;
    next.hidden = at === steps.length - 1;
    count.textContent = count.dataset.tourCount.replace("{n}", at + 1).replace("{all}", steps.length);
    const title = steps[at].querySelector("h2");
    tour.setAttribute("aria-labelledby", title.id);
    shown.scrollIntoView({ block: "center", behavior: "instant" });
    place();
    if (takesFocus) title.focus({ preventScroll: true });
  }

  function end() {
    shown.classList.remove("tour-at");
    tour.remove();
    removeEventListener("resize", place);
    removeEventListener("scroll", place);
    history.replaceState(null, "", location.pathname);
  }

  function left() {
    fetch(leave.action, { method: "POST", body: new FormData(leave), redirect: "manual" });
    end();
    document.querySelector("#main").focus();
    announce(leave.dataset.left);
  }

  tour.classList.add("tour-on");
  tour.setAttribute("role", "dialog");
  count.hidden = false;
  back.addEventListener("click", () => show(at - 1));
  next.addEventListener("click", () => show(at + 1));
  leave.addEventListener("submit", (event) => {
    event.preventDefault();
    left();
  });
  tour.querySelector("[data-tour-end]")?.addEventListener("submit", () => keep(0));
  tour.addEventListener("keydown", (event) => {
    if (event.key === "Escape") left();
  });
  addEventListener("resize", place);
  addEventListener("scroll", place, { passive: true });
  show(at);
}
