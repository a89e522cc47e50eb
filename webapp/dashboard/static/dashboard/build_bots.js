// Sends one message to every bot that can reply, two at a time to avoid flooding a host. Loaded and free bots are asked
// when the page opens.
const AT_ONCE = 2;

export function askStart() {
  const bar = document.querySelector("[data-ask]");
  if (!bar) return;
  bar.hidden = false;
  const line = bar.querySelector("[data-line]");
  const button = bar.querySelector("[data-ask-all]");
  let round = 0;

  const askAll = async (which) => {
    round += 1;
    const mine = round;
    const waiting = [...document.querySelectorAll(which)];
    const work = async () => {
      while (waiting.length && mine === round) await ask(waiting.shift(), line.value.trim(), bar.dataset);
    };
    button.setAttribute("aria-busy", "true");
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (mine === round) button.removeAttribute("aria-busy");
  };

  const askEvery = () => line.value.trim() && askAll("[data-bot]:not([data-closed])");
  button.addEventListener("click", askEvery);
  line.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    askEvery();
  });
  if (!navigator.connection?.saveData) askAll("[data-unasked]");
}

// A preset sets several fields, and is shown as pressed while they have its values.
export function presetsStart() {
  const box = document.querySelector("[data-presets]");
  if (!box) return;
  const { elements } = box.closest("form");
  const presets = [...box.children].map((button) => [button, button.dataset.preset.split(";").map((one) => one.split("="))]);
  const follow = () => {
    for (const [button, values] of presets) {
      button.setAttribute("aria-pressed", values.every(([name, value]) => elements[name].value === value));
    }
  };
  for (const [button, values] of presets) {
    button.addEventListener("click", () => {
      for (const [name, value] of values) elements[name].value = value;
      follow();
      elements[values[0][0]].dispatchEvent(new Event("change", { bubbles: true }));
    });
  }
  box.closest("form").addEventListener("input", follow);
  follow();
  box.hidden = false;
}

async function ask(card, text, { token, took }) {
  const said = card.querySelector("[data-said]");
  said.hidden = false;
  said.className = "build-said is-waiting";
  said.textContent = "…";
  const began = performance.now();
  try {
    const answer = await fetch(card.querySelector("a").href + "reply/", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRFToken": token },
      body: JSON.stringify({ turns: [{ speaker: "human", text }], seed: 1 }),
    });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    said.className = "build-said";
    said.textContent = found.text;
    const time = card.querySelector("[data-time] span");
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    if (time) time.textContent = took.replace("{s}", seconds);
  } catch (error) {
    said.className = "build-said is-bad";
    said.textContent = error.message;
  }
}
