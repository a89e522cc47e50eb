// The live room: asked for every three seconds while it is seen; a part changes only when nobody's focus is in it.
import { announce } from "./announce.js";

const EVERY_MS = 3000;
const PATIENCE_MS = 9000;
const SAY_EVERY_MS = 60_000;

const box = document.querySelector("[data-live-room]");
const updated = document.querySelector("[data-live-updated]");
const alarm = document.querySelector("[data-live-alarm]");
let digest = room().dataset.digest;
let pending = null;
let busy = false;
let askedAt = Date.now();
let ahead = Date.now() - Date.parse(room().dataset.now);
let said = { at: Date.now(), text: room().dataset.say };
let alarmed = room().dataset.alarm;

function room() {
  return box.firstElementChild;
}

function clock(ms, more = {}) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...more });
}

function tell(is_fresh) {
  if (is_fresh) askedAt = Date.now();
  const is_stale = Date.now() - askedAt > PATIENCE_MS;
  updated.classList.toggle("is-stale", is_stale);
  const time = clock(askedAt, is_stale ? {} : { second: "2-digit" });
  updated.textContent = updated.dataset[is_stale ? "stale" : "updated"].replace("{time}", time);
}

function tick() {
  for (const time of box.querySelectorAll("time[data-since]")) {
    const gone = Math.max(0, Math.round((Date.now() - ahead - Date.parse(time.dateTime)) / 1000));
    time.textContent = gone < 90 ? time.textContent.replace(/^\d+/, gone) : time.textContent;
  }
}

// Parts are replaced one by one, so that a person keeps what is under their hand.
function show(fresh) {
  const before = chosen();
  const parts = (of) => [...of.querySelectorAll("[data-part]")].map((part) => part.dataset.part).join();
  const now = room();
  const is_held = (part) => part.contains(document.activeElement) && document.activeElement !== document.body;
  let held = false;
  if (parts(fresh) !== parts(now)) {
    held = is_held(now);
    if (!held) now.replaceWith(fresh);
  } else {
    for (const part of fresh.querySelectorAll("[data-part]")) {
      const old = now.querySelector(`[data-part="${part.dataset.part}"]`);
      if (old.innerHTML === part.innerHTML) continue;
      if (is_held(old)) held = true;
      else old.replaceWith(part);
    }
  }
  choose(before);
  return held;
}

// What was chosen in a switch (which question, plot or table) is chosen in the part that replaces it.
function chosen() {
  return [...box.querySelectorAll("input[type=radio]:checked")].map((one) => [one.name, one.value]);
}

function choose(found) {
  for (const [name, value] of found) {
    const one = [...box.querySelectorAll("input[type=radio]")].find((each) => each.name === name && each.value === value);
    if (one) one.checked = true;
  }
  questionShow();
}

// One question at a time, however many there are; without script all stand below one another.
function questionShow() {
  const asked = box.querySelector("[name=live-question]:checked")?.value;
  for (const one of box.querySelectorAll("[data-question]")) one.hidden = Boolean(asked) && one.dataset.question !== asked;
}

function speak(data) {
  for (const form of document.querySelectorAll("form[data-confirm-more]")) {
    form.dataset.confirm = `${data.confirm} ${form.dataset.confirmMore}`.trim();
  }
  if (data.alarm !== alarmed) {
    alarmed = data.alarm;
    alarm.textContent = alarmed;
  }
  if (data.say !== said.text && Date.now() - said.at >= SAY_EVERY_MS) {
    said = { at: Date.now(), text: data.say };
    announce(said.text);
  }
}

async function ask() {
  if (busy || document.hidden) return;
  busy = true;
  try {
    const headers = { Accept: "text/html", "If-None-Match": `"${digest}"` };
    const answer = await fetch(box.dataset.liveRoom, { headers, cache: "no-store" });
    if (answer.redirected) return location.reload();
    if (answer.status === 304) tell(true);
    else if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.body.firstElementChild;
      // Somebody paused or opened it elsewhere: the buttons are others now.
      if (fresh.dataset.state !== room().dataset.state) return location.reload();
      digest = fresh.dataset.digest;
      ahead = Date.now() - Date.parse(fresh.dataset.now);
      const data = { ...fresh.dataset };
      pending = show(fresh.cloneNode(true)) ? fresh : null;
      speak(data);
      tell(true);
    } else tell(false);
  } catch {
    tell(false); // the server may restart; the next time will tell
  } finally {
    busy = false;
    tick();
  }
}

questionShow();
box.addEventListener("change", questionShow);
setInterval(ask, EVERY_MS);
document.addEventListener("visibilitychange", ask);
box.addEventListener("focusout", () => {
  setTimeout(() => {
    if (pending && !show(pending.cloneNode(true))) pending = null;
  });
});
