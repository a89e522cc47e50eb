// Range of a number: two sliders over a histogram, next to two fields, which are submitted. Without scripts there are
// only the fields.
export function spreadStart(form) {
  const here = form.querySelector("[data-spread-here]");
  const number = form.elements.number;
  const fields = { low: form.elements.low, high: form.elements.high };
  let asking = null;

  const read = (field) => (field.value.trim() === "" ? NaN : Number(field.value.replace(",", ".").replace("−", "-")));

  // Fill the bars within the range; a slider is at its field's value, or at the end if that is empty.
  const show = () => {
    const low = read(fields.low);
    const high = read(fields.high);
    for (const bar of here.querySelectorAll("rect")) {
      const [from, to] = [Number(bar.dataset.low), Number(bar.dataset.high)];
      bar.classList.toggle("is-out", to <= low || from > high);
    }
    for (const slider of here.querySelectorAll("[data-end]")) {
      const is = slider.dataset.end === "low" ? low : high;
      slider.value = Number.isNaN(is) ? slider[slider.dataset.end === "low" ? "min" : "max"] : is;
    }
  };

  const slid = (event) => {
    const slider = event.target;
    const { end } = slider.dataset;
    const other = here.querySelector(`[data-end=${end === "low" ? "high" : "low"}]`);
    const beyond = end === "low" ? Number(slider.value) > Number(other.value) : Number(slider.value) < Number(other.value);
    if (beyond) slider.value = other.value;
    const isOpen = slider.value === slider[end === "low" ? "min" : "max"];
    fields[end].value = isOpen ? "" : slider.value;
    show();
  };

  const ask = async () => {
    asking?.abort();
    asking = new AbortController();
    const query = new URLSearchParams({ of: number.value });
    for (const field of form.querySelectorAll("input[type=hidden]")) {
      if (field.name !== "narrow") query.append(field.name, field.value);
    }
    try {
      const answer = await fetch(`${form.dataset.spread}?${query}`, { signal: asking.signal });
      if (!answer.ok) throw new Error(answer.statusText);
      const part = new DOMParser().parseFromString(await answer.text(), "text/html").body;
      here.replaceChildren(...part.childNodes);
      here.hidden = false;
      show();
    } catch (error) {
      if (error.name !== "AbortError") here.hidden = true; // the fields work without it
    }
  };

  here.addEventListener("input", slid);
  for (const field of Object.values(fields)) field.addEventListener("input", show);
  // The fields show the search's range of the selected number.
  number.addEventListener("input", () => {
    for (const [end, field] of Object.entries(fields)) field.value = number.selectedOptions[0].dataset[end];
    ask();
  });
  form.closest("details").addEventListener("toggle", (event) => {
    if (event.target.open && !here.childNodes.length) ask();
  });
}
