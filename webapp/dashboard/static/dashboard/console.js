// The staff console: canned replies and drafts are put into the box, to be edited before sending.
const form = document.querySelector("[data-console]");
if (form) {
  const box = form.elements.text;
  const status = form.querySelector("[data-console-status]");
  const fill = (text) => {
    box.value = text;
    box.focus();
  };
  for (const button of form.querySelectorAll("[data-canned]")) {
    button.addEventListener("click", () => fill(button.dataset.canned));
  }
  const suggest = form.querySelector("[data-suggest]");
  suggest?.addEventListener("click", async () => {
    status.textContent = suggest.dataset.waiting;
    try {
      // The live part is redrawn, so read the turns when they are needed.
      const turns = JSON.parse(document.getElementById("console-turns").textContent);
      const answer = await fetch(suggest.dataset.suggest, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
        body: JSON.stringify({ turns, seed: turns.length }),
      });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      fill(found.text);
      status.textContent = "";
    } catch (error) {
      status.textContent = error.message;
    }
  });
}
