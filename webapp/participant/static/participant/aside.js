// A researchers' question during a chat: fetched when due, shown instead of the message box.

import { busyWire, byId } from "./page.js";

const place = byId("aside-place");
const AGAIN_AFTER_MS = 2000;
const asksOf = (main) => (main?.dataset.asks ?? "").split(" ").filter(Boolean).map(Number);
const asks = asksOf(byId("main"));
let isFetching = false;

export const asideDue = () => Boolean(place.firstElementChild);

// After `n` answered messages: fetch the due question once nothing is pending.
export async function asideFollow(n, { isQuiet, onShown }) {
  if (isFetching || asideDue() || !isQuiet || !asks.some((after) => n >= after)) return;
  isFetching = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const question = page.getElementById("aside-question");
    asks.splice(0, asks.length, ...asksOf(page.getElementById("main"))); // another window may have answered one
    if (question) {
      place.append(question);
      busyWire(place);
      onShown();
      question.scrollIntoView({ block: "nearest" });
      question.querySelector("input:not([type=hidden])").focus({ preventScroll: true });
    } else if (asks.some((after) => n >= after)) {
      setTimeout(onShown, AGAIN_AFTER_MS); // the reply that makes it due is not stored yet
    }
  } catch {
    setTimeout(onShown, AGAIN_AFTER_MS); // the connection is lost
  } finally {
    isFetching = false;
  }
}
