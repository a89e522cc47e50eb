// The form that narrows the list says, while somebody chooses, how many conversations fit.
const WAIT_MS = 400; // between the last letter and the question

export function narrowStart(form) {
  const here = form.querySelector("[data-total-here]");
  let waiting = 0;
  let asking = null;

  const ask = async () => {
    asking?.abort();
    asking = new AbortController();
    try {
      const answer = await fetch(`${form.dataset.total}?${new URLSearchParams(new FormData(form))}`, { signal: asking.signal });
      if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
      here.textContent = await answer.text();
    } catch (error) {
      if (error.name !== "AbortError") here.textContent = ""; // the list tells it, once it is narrowed
    }
  };

  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT_MS);
  });
}
