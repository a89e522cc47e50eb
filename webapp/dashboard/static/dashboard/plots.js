// Plots: values on hover and focus, arrow keys between marks.
export function plotsStart(root = document) {
  const tip = document.querySelector("[data-tip-box]");
  if (!tip) return;
  for (const svg of root.querySelectorAll(".figure svg[role]")) plotStart(svg, tip);
  if (root !== document) return;
  document.addEventListener("scroll", () => hide(tip), { passive: true, capture: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide(tip));
}

function plotStart(svg, tip) {
  const marks = [...svg.querySelectorAll(".mark")];
  marks.forEach((mark, i) => {
    const title = mark.querySelector(":scope > title");
    mark.dataset.tip = title.textContent;
    title.remove(); // otherwise the browser would show it as well
    mark.setAttribute("tabindex", i === 0 ? "0" : "-1");
    mark.addEventListener("pointerenter", () => show(tip, mark));
    mark.addEventListener("pointerleave", () => hide(tip));
    mark.addEventListener("focus", () => show(tip, mark));
    mark.addEventListener("blur", () => hide(tip));
    mark.addEventListener("keydown", (event) => move(event, mark, marks));
  });
}

function show(tip, mark) {
  hide(tip);
  mark.classList.add("is-current");
  tip.textContent = mark.dataset.tip;
  tip.hidden = false;
  const at = (mark.querySelector(".mean-tick, .bot, .step, .vote-up") || mark).getBoundingClientRect();
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left + at.width / 2 - box.width / 2), innerWidth - box.width - 8);
  const above = at.top - box.height - 10;
  tip.style.setProperty("transform", `translate(${left}px, ${above > 4 ? above : at.bottom + 10}px)`);
}

function hide(tip) {
  tip.hidden = true;
  document.querySelector(".mark.is-current")?.classList.remove("is-current");
}

// The nearest mark in the arrow's direction.
function move(event, mark, marks) {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!way) return;
  event.preventDefault();
  const centre = (element) => {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = centre(mark);
  let best = null;
  let least = Infinity;
  for (const other of marks) {
    if (other === mark) continue;
    const [ox, oy] = centre(other);
    const along = (ox - x) * way[0] + (oy - y) * way[1];
    const aside = Math.abs((ox - x) * way[1] + (oy - y) * way[0]);
    if (along > 1 && along + 3 * aside < least) {
      least = along + 3 * aside;
      best = other;
    }
  }
  if (!best) return;
  mark.setAttribute("tabindex", "-1");
  best.setAttribute("tabindex", "0");
  best.focus();
}
