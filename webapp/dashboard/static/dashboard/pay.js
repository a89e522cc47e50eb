// The pay screen: Reject opens once a reason is long enough, and says so until then.
for (const form of document.querySelectorAll("[data-reject]")) {
  const reason = form.querySelector("textarea");
  const button = form.querySelector('button[value="reject"]');
  const closed = form.querySelector("[data-reject-hint]");
  const least = Math.max(1, Number(form.dataset.least));
  const update = () => {
    const isOpen = reason.value.trim().length >= least;
    button.setAttribute("aria-disabled", String(!isOpen));
    closed.hidden = isOpen;
  };
  button.addEventListener("click", (event) => {
    if (button.getAttribute("aria-disabled") !== "true") return;
    event.preventDefault();
    reason.focus();
  });
  reason.addEventListener("input", update);
  update();
}
