// “Try it” in the form of a bot: requests a test reply from the endpoint before the bot is stored.
const button = document.querySelector("[data-try-form-button]");
if (button) {
  const form = button.form;
  const status = document.querySelector("[data-try-form-status]");
  const key = form.elements.key;
  const newKey = form.elements.new_key?.closest("div");
  const showKey = () => { newKey.hidden = key.value !== "new"; };
  key.addEventListener("change", showKey);
  showKey();
  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    status.className = "hint";
    status.textContent = button.dataset.waiting;
    try {
      const answer = await fetch(button.dataset.tryFormButton, { method: "POST", body: new FormData(form) });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      form.elements.proof.value = found.proof; // once stored, the bot counts as tried
      status.textContent = `It was asked “${found.said}” and answered in ${found.seconds} s: “${found.text}”`;
    } catch (error) {
      status.className = "errorlist";
      status.textContent = `It gave no reply. ${error.message}`;
    } finally {
      button.disabled = false;
    }
  });
}
