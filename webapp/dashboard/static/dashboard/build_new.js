// The key follows the name until it is edited.
const name = document.querySelector("#id_name");
const key = document.querySelector("#id_key");
// As webapp/core/keys.py spells them.
const SPELLED_OUT = { ä: "ae", ö: "oe", ü: "ue", ß: "ss", æ: "ae", ø: "oe", å: "aa", đ: "d", ð: "d", þ: "th", ł: "l" };
let own = key.value !== "";
const follow = () => {
  if (own) return;
  key.value = name.value
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[^a-z0-9]/g, (letter) => SPELLED_OUT[letter] ?? letter)
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 54);
};
key.addEventListener("input", () => { own = key.value !== ""; });
name.addEventListener("input", follow);
// Text typed before this script loaded counts, too.
follow();
