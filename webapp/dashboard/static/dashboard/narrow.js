// The search form shows the number of matching conversations while the user selects filters.
const WAIT_MS = 400; // pause after the last letter before the request

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
      if (error.name !== "AbortError") here.textContent = ""; // the list shows it after the search
    }
  };

  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT_MS);
  });
}
