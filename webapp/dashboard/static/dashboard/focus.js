// Whoever sends a form by keys and comes back to the same page goes on where they were, not at its top: a star, a tag, a search, another
// order. Where the page that comes says what went wrong, or what was done, they go on at these words, or hear them.
import { announce } from "./announce.js";

const KEPT = "confab-focus";
const HEARD_AFTER_MS = 500; // a live region is read out when it changes, not as the page comes with it
let byKeys = false;

export function focusStart() {
  document.addEventListener("keydown", () => { byKeys = true; }, true);
  document.addEventListener("pointerdown", () => { byKeys = false; }, true);
  document.addEventListener("submit", (event) => {
    if (byKeys && !event.defaultPrevented) remember(document.activeElement, "", event.target.dataset.tells);
  });
  // Forms would keep the mark of the step to the content in their addresses, and every page of theirs begin there.
  addEventListener("hashchange", () => {
    if (location.hash === "#main") history.replaceState(history.state, "", location.pathname + location.search);
  });
  restore();
}

// Load the page again because what it waited for is there: the focus stays, and the words are read out.
export function reloadWith(words) {
  remember(document.activeElement, words);
  location.reload();
}

// What names the control on the page that comes: its id, the conversation of its row, or its form and name.
function nameOf(control) {
  if (control.id) return `#${CSS.escape(control.id)}`;
  if (control.dataset.row) return `[data-row="${CSS.escape(control.dataset.row)}"]`;
  const action = control.form?.getAttribute("action");
  return action && control.name ? `form[action="${CSS.escape(action)}"] [name="${CSS.escape(control.name)}"]` : "";
}

function remember(control, words = "", tells = "") {
  const name = control && control !== document.body ? nameOf(control) : "";
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([location.pathname, name, words, tells]));
  } catch {
    // Without storage the page begins at its top.
  }
}

function restore() {
  let kept = null;
  try {
    kept = JSON.parse(sessionStorage.getItem(KEPT));
    sessionStorage.removeItem(KEPT);
  } catch {
    // As above.
  }
  if (!kept || !document.activeElement.matches("body, main")) return;
  const [page, name, words, tells] = kept;
  const isSame = page === location.pathname;
  const alerts = [...document.querySelectorAll("main [role=alert]")].filter((one) => one.textContent.trim());
  const wrong = isSame && !words && alerts[0];
  const control = isSame && name && !document.querySelector("main .has-error") ? document.querySelector(name) : null;
  // A form may name what else tells what came of it, such as how many conversations were found.
  const said = isSame && tells ? document.querySelector(tells) : null;
  const told = document.querySelector("main .banner[role=status], main [data-told]") ?? said;
  const here = wrong || control || (words ? null : told);
  if (here && here !== control) here.tabIndex = -1;
  const fold = here?.closest("details:not([open])");
  (fold && !here.matches("summary") ? fold.querySelector("summary") : here)?.focus();
  const heard = words || (here === control && told?.textContent.trim().replace(/\s+/g, " "));
  if (heard) setTimeout(() => announce(heard), HEARD_AFTER_MS);
}
