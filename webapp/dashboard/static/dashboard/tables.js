// Tables: sort by a column, copy as tab-separated text.
import { announce } from "./announce.js";

export function tablesStart(root = document) {
  for (const table of root.querySelectorAll("table[data-sortable]")) sortable(table);
  for (const button of root.querySelectorAll("[data-copy-table]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", () => copy(button.closest(".figure").querySelector("table"), button));
  }
  for (const button of root.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.dataset.copy);
      said(button, button.dataset.copied);
    });
  }
}

function said(button, words) {
  const before = button.textContent;
  button.textContent = words;
  announce(words);
  setTimeout(() => { button.textContent = before; }, 2000);
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [value(row.cells[column]), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null); // missing values come last in both orders
        const order = typeof a === "number" ? a - b : a.localeCompare(b);
        return up ? order : -order;
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}

function value(cell) {
  if (cell.dataset.sort) return Number(cell.dataset.sort);
  const text = cell.textContent.trim();
  if (text === "" || text.startsWith("–")) return null;
  if (!cell.classList.contains("number")) return text;
  const number = Number.parseFloat(text.replace("−", "-").replace(/^\[/, "").replace("−", "-"));
  return Number.isNaN(number) ? null : number;
}

async function copy(table, button) {
  const lines = [...table.rows].map((row) =>
    [...row.cells].map((cell) => cell.textContent.trim().replace(/\s+/g, " ")).join("\t"));
  await navigator.clipboard.writeText(lines.join("\n"));
  said(button, "✓");
}
