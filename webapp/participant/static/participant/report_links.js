// The links “Report” beside replies. They lead to a page; `report.js` opens a dialog instead, where it could be loaded.

import { byId } from "./page.js";

// The link beside a reply that came by a socket; null where the study takes no reports.
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

// Without the module, reports are written on a page of their own. It does not import this one: names of static files
// contain a digest of their content, which two files that name each other cannot have.
export const reportsOpen = () =>
  import("./report.js").then(
    ({ reportWire }) => reportWire(markDone),
    () => {},
  );
