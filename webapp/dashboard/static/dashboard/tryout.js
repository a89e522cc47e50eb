// The test chat: turns exist only in this page, and every request contains all of them.
const log = document.querySelector("[data-try]");
const list = log?.querySelector("ol");
if (log) {
  const form = document.querySelector("[data-try-form]");
  const text = form.querySelector("textarea");
  const status = document.querySelector("[data-try-status]");
  let turns = [];
  let seed = Math.floor(Math.random() * 2 ** 31);
  let round = 0;

  const add = (words, kind, who) => {
    const item = document.createElement("li");
    item.className = kind;
    item.dir = "auto";
    const speaker = document.createElement("span");
    speaker.className = "visually-hidden";
    speaker.textContent = `${who}: `;
    item.append(speaker, words);
    list.append(item);
    log.scrollTop = log.scrollHeight;
  };

  const ask = async () => {
    const mine = round;
    status.textContent = log.dataset.waiting;
    try {
      const answer = await fetch(log.dataset.try, {
        method: "POST",
        headers: {
          "Content-Type": "application/json",
          "X-CSRFToken": form.elements.csrfmiddlewaretoken.value,
        },
        body: JSON.stringify({ turns, seed }),
      });
      const found = await answer.json();
      if (mine !== round) return;
      if (!answer.ok) throw new Error(found.error);
      turns.push({ speaker: "bot", text: found.text });
      add(found.text, "bot", log.dataset.bot);
    } catch (error) {
      if (mine !== round) return;
      add(error.message, "failed", log.dataset.bot);
      turns.pop(); // so that the same message can be sent again
    } finally {
      if (mine === round) status.textContent = "";
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = text.value.trim();
    if (!words || status.textContent) return;
    turns.push({ speaker: "human", text: words });
    add(words, "you", log.dataset.you);
    text.value = "";
    ask();
  });
  let composing = false;
  text.addEventListener("compositionstart", () => { composing = true; });
  text.addEventListener("compositionend", () => setTimeout(() => { composing = false; }, 0));
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || composing || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    form.requestSubmit();
  });
  document.querySelector("[data-try-new]").addEventListener("click", () => {
    turns = [];
    seed = Math.floor(Math.random() * 2 ** 31);
    round += 1;
    status.textContent = "";
    list.replaceChildren();
    text.focus();
  });
}
