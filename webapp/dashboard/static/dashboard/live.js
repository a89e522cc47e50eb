// Progress: polled every three seconds while the page is visible, and announced once a minute.
import { announce } from "./announce.js";
import { reloadWith } from "./focus.js";
import { formsStart } from "./forms.js";

const EVERY_MS = 3000;
const SOON_MS = [600, 1500];
const SAY_EVERY_MS = 60_000;

export function liveStart(root = document) {
  if (navigator.connection?.saveData) return;
  for (const box of root.querySelectorAll("[data-live]")) {
    if (!box.hasAttribute("data-over")) follow(box);
  }
}

function follow(box) {
  let timer = null;
  let busy = false;
  let said = Date.now();
  let over = false;

  async function ask() {
    if (busy || over || document.hidden) return;
    busy = true;
    try {
      const answer = await fetch(box.dataset.live, { headers: { Accept: "text/html" } });
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.body.firstElementChild;
      over = fresh.dataset.over === "1";
      if (over && box.hasAttribute("data-reload")) {
        return reloadWith(fresh.querySelector(".run-head p")?.textContent.trim() ?? fresh.dataset.say);
      }
      // Do not redraw while a dialog is open or a button has the focus.
      if (box.contains(document.activeElement) && document.activeElement !== document.body && !over) {
        for (const name of [".big-count", "progress"]) {
          const to = box.querySelectorAll(name);
          fresh.querySelectorAll(name).forEach((from, i) => {
            if (!to[i]) return;
            if (name === "progress") to[i].value = from.value;
            else to[i].textContent = from.textContent;
          });
        }
      } else {
        box.replaceChildren(fresh);
        formsStart(box);
      }
      if (over || Date.now() - said > SAY_EVERY_MS) {
        said = Date.now();
        announce(fresh.dataset.say);
      }
    } catch {
      // The server may be restarting; the next poll will tell.
    } finally {
      busy = false;
      if (over) clearInterval(timer);
    }
  }

  timer = setInterval(ask, EVERY_MS);
  // The result is often ready in a moment.
  if (box.hasAttribute("data-reload")) for (const ms of SOON_MS) setTimeout(ask, ms);
  document.addEventListener("visibilitychange", () => document.hidden || ask());
}
