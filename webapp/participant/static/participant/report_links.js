// The “Report” links next to replies. They lead to a page; if `report.js` is loaded, it opens a dialog instead.

import { byId } from "./page.js";

// The link next to a reply that arrived by a socket; null if the study allows no reports.
export function reportLink(address, turn, isReported) {
  const link = document.getElementById("tpl-report")?.content.firstElementChild.cloneNode(true);
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

// Without the module, reports are written on a separate page. It does not import this one: names of static files
// contain a digest of their content, so two files cannot name each other.
export const reportsOpen = () =>
  import("./report.js").then(
    ({ reportWire }) => reportWire(markDone),
    () => {},
  );
