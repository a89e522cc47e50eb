// Decisions about hits without a reload, also by key: Y replaces, N keeps, Shift decides for equal values, J and K move.
const list = document.querySelector("[data-redaction]");
const WORDS = { replace: "Replace", keep: "Keep" };

if (list) {
  const hits = [...list.children];
  const keys = document.querySelector("[data-keys]");
  let current = 0;

  const show = (index) => {
    current = Math.max(0, Math.min(index, hits.length - 1));
    hits[current].focus();
  };

  const decide = async (hit, decision, everywhere) => {
    const form = hit.querySelector("form");
    const body = new FormData(form);
    body.set("decision", decision);
    if (everywhere) body.set("everywhere", "1");
    const mark = hit.querySelector("[data-decision]");
    try {
      const response = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
      if (!response.ok || response.redirected) throw new Error((await response.json()).error);
      const same = body.has("everywhere") ? hits.filter((other) => other.dataset.value === hit.dataset.value) : [hit];
      for (const other of same) {
        other.classList.add("redaction-decided");
        other.querySelector("[data-decision]").textContent = WORDS[decision];
      }
      const next = hits.findIndex((other, i) => i > hits.indexOf(hit) && !other.classList.contains("redaction-decided"));
      if (next >= 0) show(next);
    } catch (error) {
      mark.textContent = error.message || "Not saved. Reload the page.";
    }
  };

  list.addEventListener("submit", (event) => {
    event.preventDefault();
    decide(event.target.closest("li"), event.submitter.value, false);
  });
  list.addEventListener("focusin", (event) => {
    current = hits.indexOf(event.target.closest("li"));
  });
  document.addEventListener("keydown", (event) => {
    if (!keys?.checked || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.matches("input:not([type=checkbox]), textarea, select")) return;
    const key = event.key.toLowerCase();
    if (key === "j" || key === "k") show(current + (key === "j" ? 1 : -1));
    else if (key === "y" || key === "n") decide(hits[current], key === "y" ? "replace" : "keep", event.shiftKey);
    else return;
    event.preventDefault();
  });
  hits[0].focus({ preventScroll: true });
}
