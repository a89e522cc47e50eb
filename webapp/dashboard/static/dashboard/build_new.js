// The key follows the name until somebody writes one.
const name = document.querySelector("#id_name");
const key = document.querySelector("#id_key");
let own = key.value !== "";
const follow = () => {
  if (own) return;
  key.value = name.value
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 54);
};
key.addEventListener("input", () => { own = key.value !== ""; });
name.addEventListener("input", follow);
// What was typed before this script came counts, too.
follow();
