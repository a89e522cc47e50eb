// Errors in one reply: words are selected or tapped in the text, or chosen from two lists. An error is listed and
// highlighted in the text.

import { byId } from "./page.js";

export function spansWire(form) {
  const field = form.querySelector("input[name=spans]");
  const [text, list, none, status] = ["text", "list", "none", "status"].map((name) => byId(`span-${name}`));
  const [first, last, category, severity] = ["first", "last", "category", "severity"].map((n) => byId(`span-${n}`));
  const words = [...text.children];
  const chosen = byId("span-chosen");
  const codes = () => field.value.split(";").filter(Boolean);
  const isInside = ({ dataset }, from, to) => Number(dataset.first) < to && Number(dataset.last) > from;
  const named = (select, value) => [...select.options].find((option) => option.value === value)?.text ?? value;
  let tapped = null;

  function draw() {
    const marked = codes().map((code) => [code, ...code.split(":")]);
    for (const word of words) {
      const here = marked.filter(([, from, to]) => isInside(word, Number(from), Number(to)));
      word.className = here.map((one) => `span-${one[4]}`).join(" ");
      word.classList.toggle("is-chosen", isInside(word, Number(first.value), Number(last.value)));
    }
    const quote = [...text.textContent].slice(Number(first.value), Number(last.value)).join("");
    chosen.textContent = first.value !== "" && quote ? `${chosen.dataset.chosen} “${quote}”` : "";
    const rows = marked.map(([code, from, to, kind, how]) => {
      const row = byId("span-row").content.cloneNode(true);
      row.querySelector("q").textContent = [...text.textContent].slice(from, to).join("");
      row.querySelector(".muted").textContent = `${named(category, kind)} · ${named(severity, how)}`;
      row.querySelector("button").value = code;
      return row;
    });
    list.replaceChildren(...rows);
    none.disabled = marked.length > 0;
    if (marked.length) none.checked = false;
  }

  function store(found, said) {
    field.value = found.join(";");
    field.dispatchEvent(new Event("input", { bubbles: true })); // it is part of the draft
    status.textContent = said;
    draw();
  }

  function choose(from, to) {
    first.value = from.dataset.first;
    last.value = to.dataset.last;
    draw();
  }

  text.addEventListener("click", ({ target }) => {
    if (!words.includes(target) || !getSelection().isCollapsed) return;
    const goesOn = tapped !== null && words.indexOf(target) > words.indexOf(tapped);
    choose(goesOn ? tapped : target, target);
    tapped = goesOn ? null : target;
  });
  document.addEventListener("selectionchange", () => {
    const selection = getSelection();
    if (selection.isCollapsed || !text.contains(selection.anchorNode)) return;
    const selected = words.filter((word) => selection.containsNode(word, true));
    if (selected.length) choose(selected[0], selected[selected.length - 1]);
  });
  form.addEventListener("change", draw);
  form.addEventListener("click", (event) => {
    const { name, value } = event.target;
    if (name === "_remove") {
      event.preventDefault();
      store(codes().filter((code) => code !== value), status.dataset.removed);
      byId("span-add").focus();
    } else if (name === "_add" && category.value && severity.value && Number(first.value) < Number(last.value)) {
      event.preventDefault();
      const code = [first, last, category, severity].map((select) => select.value).join(":");
      for (const select of [first, last, category, severity]) select.value = "";
      tapped = null;
      store([...codes().filter((one) => one !== code), code], status.dataset.added);
    } // otherwise the server names what is missing
  });
  draw();
}
