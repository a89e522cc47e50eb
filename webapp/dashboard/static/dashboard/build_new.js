// The key follows the name until somebody writes one.
const name = document.querySelector("#id_name");
const key = document.querySelector("#id_key");
let own = key.value !== "";
key.addEventListener("input", () => { own = key.value !== ""; });
name.addEventListener("input", () => {
  if (own) return;
  key.value = name.value
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 54);
});
