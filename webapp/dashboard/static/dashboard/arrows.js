// In a table marked data-arrows, arrow keys, Home and End move between linked cells.
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };

for (const table of document.querySelectorAll("table[data-arrows]")) {
  table.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const cell = event.target.closest("td");
    if (!step || !cell || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    neighbour(cell, ...step)?.focus();
  });
}

// The next cell with a link in this direction; in right-to-left text, left means forward.
function neighbour(cell, down, along) {
  const rows = [...cell.closest("tbody").rows];
  let row = rows.indexOf(cell.parentElement);
  let column = cell.cellIndex;
  if (Math.abs(along) === Infinity) {
    const links = [...cell.parentElement.querySelectorAll("td a")];
    return along < 0 ? links[0] : links.at(-1);
  }
  const way = getComputedStyle(cell).direction === "rtl" ? -along : along;
  for (;;) {
    row += down;
    column += way;
    const next = rows[row]?.cells[column];
    if (!next || next.tagName !== "TD") return null;
    const link = next.querySelector("a");
    if (link) return link;
  }
}
