// Folded sections, marked data-load: their content is requested when they are first opened.
import { announce } from "./announce.js";
import { formsStart } from "./forms.js";
import { liveStart } from "./live.js";
import { plotsStart } from "./plots.js";
import { tablesStart } from "./tables.js";

export function foldsStart() {
  for (const fold of document.querySelectorAll("details[data-load]")) {
    fold.addEventListener("toggle", () => fold.open && load(fold));
    if (fold.open) load(fold); // state restored by the browser after a reload
  }
}

async function load(fold) {
  const from = fold.dataset.load;
  if (!from) return;
  delete fold.dataset.load;
  fold.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(from);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(fold.id);
    const [summary, ...others] = fresh.children;
    fold.querySelector("summary").replaceChildren(...summary.childNodes); // keep the element, because it has the focus
    fold.querySelector("summary").after(...others);
    fold.lastElementChild.remove(); // the link for browsers without script
    for (const start of [plotsStart, tablesStart, formsStart, liveStart]) start(fold);
    fold.dispatchEvent(new Event("loaded", { bubbles: true }));
    history.replaceState(history.state, "", `#${fold.id}`); // a reload opens it again
    announce(summary.textContent.trim().replace(/\s+/g, " "));
  } catch {
    fold.dataset.load = from; // opening it again retries; its link leads there, too
  } finally {
    fold.removeAttribute("aria-busy");
  }
}
