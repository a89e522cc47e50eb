// A question of the researchers in the middle of a chat: fetched when it is due, shown in place of the box to write in.

import { busyWire, byId } from "./page.js";

const place = byId("aside-place");
const asks = (byId("main").dataset.asks ?? "").split(" ").filter(Boolean).map(Number);
let isFetching = false;

export const asideDue = () => Boolean(place.firstElementChild);

// After `n` answered messages: fetch the question that is due by now, once nothing is under way.
export async function asideFollow(n, { isQuiet, onShown }) {
  if (isFetching || asideDue() || !isQuiet || !asks.some((after) => n >= after)) return;
  isFetching = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const question = page.getElementById("aside-question");
    if (!question) return; // the reply that makes it due is not stored yet
    asks.splice(0, asks.length, ...asks.filter((after) => n < after));
    place.append(question);
    busyWire(place);
    onShown();
    question.scrollIntoView({ block: "nearest" });
    question.querySelector("input:not([type=hidden])").focus({ preventScroll: true });
  } catch {
    // The connection is gone; the next reply tries again, and the form asks before it opens.
  } finally {
    isFetching = false;
  }
}
