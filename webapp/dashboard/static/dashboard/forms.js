// Forms: choices that take effect immediately, busy buttons, confirmation before stopping.
export function formsStart(root = document) {
  for (const select of root.querySelectorAll("select[data-submit]")) {
    const button = select.form.querySelector("button");
    if (button && !button.hasAttribute("data-keep")) button.hidden = true;
    chosenByKeys(select);
    select.addEventListener("change", () => select.form.requestSubmit());
  }
  for (const box of root.querySelectorAll("[data-filter]")) filter(box);
  for (const form of root.querySelectorAll("form[data-confirm]")) form.addEventListener("submit", ask);
  for (const form of root.querySelectorAll("form[data-busy]")) {
    form.addEventListener("submit", (event) => {
      const button = form.querySelector("button.button-primary");
      if (button.getAttribute("aria-disabled") === "true") return event.preventDefault();
      button.style.setProperty("min-width", `${button.offsetWidth}px`);
      button.textContent = form.dataset.busy;
      button.setAttribute("aria-disabled", "true");
    });
  }
  for (const form of root.querySelectorAll("form[data-export]")) exported(form);
}

// In a closed list every arrow key would select and reload the page: instead, arrows open it and Enter selects.
function chosenByKeys(select) {
  select.addEventListener("keydown", (event) => {
    if (!["ArrowUp", "ArrowDown"].includes(event.key) || event.altKey || !select.showPicker) return;
    event.preventDefault();
    select.showPicker();
  });
}

// A search box hides the rows that lack its words; chosen ones stay.
function filter(box) {
  box.hidden = false;
  box.querySelector("input").addEventListener("input", ({ target }) => {
    const words = target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.querySelectorAll(box.dataset.filter)) {
      const text = row.textContent.toLowerCase();
      row.hidden = !row.querySelector(":checked") && !words.every((word) => text.includes(word));
    }
  });
}

function ask(event) {
  const form = event.currentTarget;
  if (form.dataset.sure) return;
  event.preventDefault();
  const dialog = document.createElement("dialog");
  const words = document.createElement("p");
  words.textContent = form.dataset.confirm;
  const row = document.createElement("p");
  row.className = "button-row";
  for (const [text, kind, sure] of [
    [form.dataset.confirmNo, "button", false],
    [form.dataset.confirmYes, "button button-danger", true],
  ]) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = kind;
    button.textContent = text;
    button.addEventListener("click", () => {
      dialog.close();
      if (!sure) return;
      form.dataset.sure = "1";
      form.requestSubmit();
    });
    row.append(button);
  }
  dialog.append(words, row);
  dialog.addEventListener("close", () => dialog.remove());
  // Inside the live part, which is then not redrawn under an open dialog.
  (form.closest("[data-live]") ?? document.body).append(dialog);
  dialog.showModal();
}

// The button names the file, and the command follows the choices.
function exported(form) {
  const label = form.querySelector("[data-export-label]");
  const command = form.querySelector("[data-export-command]");
  const update = () => {
    const data = new FormData(form);
    const file = `${data.get("what")}.${data.get("format")}`;
    label.textContent = `${label.dataset.exportLabel} ${file}`;
    const flags = ["synthetic", "failed", "private"]
      .filter((name) => data.has(`include_${name}`))
      .map((name) => ` --include-${name}`)
      .join("");
    command.textContent = `${command.dataset.program} export --study ${command.dataset.study} --what ${data.get("what")} `
      + `--format ${data.get("format")} --output ${file}${flags}${data.get("q") ? ` --search '${data.get("q").replaceAll("'", "'\\''")}'` : ""}${data.get("without") ? ` --without ${data.get("without")}` : ""}`;
  };
  form.addEventListener("change", update);
  update();
}
