// Rows of numbers: number keys, and links from missing answers to their questions.

// 1 to 7 choose while the focus is inside a row; never while a text box has it.
export function likertWire(form) {
  for (const row of form.querySelectorAll("fieldset.likert")) {
    row.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !/^\d$/.test(event.key)) return;
      if (event.target.type !== "radio") return;
      const radio = row.querySelector(`input[type=radio][value="${event.key}"]`);
      if (!radio) return;
      event.preventDefault();
      radio.focus();
      if (!radio.checked) radio.click(); // a choice triggers the same events as any other
    });
  }
  for (const link of document.querySelectorAll("#summary a")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const target = document.querySelector(link.getAttribute("href"));
      target.closest("fieldset, .asked").scrollIntoView({ block: "center" });
      target.focus({ preventScroll: true });
    });
  }
}
