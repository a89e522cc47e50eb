// A study's people: the live part is polled every three seconds while it is visible, and rows can be selected together.
import { announce } from "./announce.js";

const EVERY_MS = 3000;
const PATIENCE_MS = 9000;
const SAY_EVERY_MS = 60_000;

const box = document.querySelector("[data-live-room]");
const updated = document.querySelector("[data-live-updated]");
const alarm = document.querySelector("[data-live-alarm]");
const stop = document.querySelector("[data-live-stop]");
let digest = room().dataset.digest;
let pending = null;
let busy = false;
let isStopped = false;
let askedAt = Date.now();
let ahead = Date.now() - Date.parse(room().dataset.now);
let said = { at: Date.now(), text: room().dataset.say };
let alarmed = room().dataset.alarm;

function room() {
  return box.firstElementChild;
}

function tell(isFresh) {
  if (isFresh) askedAt = Date.now();
  const isStale = !isStopped && Date.now() - askedAt > PATIENCE_MS;
  updated.classList.toggle("is-stale", isStale);
  const time = new Date(askedAt).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  updated.textContent = updated.dataset[isStopped ? "stopped" : isStale ? "stale" : "updated"].replace("{time}", time);
}

function tick() {
  for (const time of box.querySelectorAll("time[data-since]")) {
    const gone = Math.max(0, Math.round((Date.now() - ahead - Date.parse(time.dateTime)) / 1000));
    time.textContent = gone < 90 ? time.textContent.replace(/^\d+/, gone) : time.textContent;
  }
}

// Parts are replaced one by one, so that the focused element and open folds stay.
function show(fresh) {
  let isHeld = false;
  for (const part of fresh.querySelectorAll("[data-part]")) {
    const old = room().querySelector(`[data-part="${part.dataset.part}"]`);
    if (part.innerHTML === old.innerHTML) continue;
    if (old.contains(document.activeElement)) {
      isHeld = true;
      continue;
    }
    if (part.matches("details")) part.open = old.open;
    const open = [...old.querySelectorAll("details")].map((one) => one.open);
    part.querySelectorAll("details").forEach((one, i) => { one.open = open[i]; });
    old.replaceWith(part);
  }
  return isHeld;
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
  if (busy || isStopped || document.hidden) return;
  busy = true;
  try {
    const headers = { Accept: "text/html", "If-None-Match": `"${digest}"` };
    const answer = await fetch(box.dataset.liveRoom, { headers, cache: "no-store" });
    if (answer.redirected) return location.reload();
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.body.firstElementChild;
      // Paused or opened by another user: update the buttons.
      if (fresh.dataset.state !== room().dataset.state) return location.reload();
      digest = fresh.dataset.digest;
      ahead = Date.now() - Date.parse(fresh.dataset.now);
      pending = show(fresh.cloneNode(true)) ? fresh : null;
      speak(fresh.dataset);
    }
    tell(answer.ok || answer.status === 304);
  } catch {
    tell(false); // the server may be restarting; the next poll will tell
  } finally {
    busy = false;
    tick();
  }
}

setInterval(ask, EVERY_MS);
document.addEventListener("visibilitychange", ask);
box.addEventListener("focusout", () => {
  setTimeout(() => {
    if (pending && !show(pending.cloneNode(true))) pending = null;
  });
});
stop.hidden = false;
stop.addEventListener("click", () => {
  isStopped = !isStopped;
  stop.textContent = isStopped ? stop.dataset.liveGo : stop.dataset.liveStop;
  tell(false);
  ask();
});

const boxes = [...document.querySelectorAll(".people-table input[name=visit]")];
const selected = document.querySelector("[data-selected]");
function count() {
  const n = boxes.filter((one) => one.checked).length;
  selected.textContent = n ? `${n} selected` : "";
}
for (const button of document.querySelectorAll("[data-select]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const which = button.dataset.select;
    for (const one of boxes) one.checked = which === "all" || (which === "unflagged" && !("flagged" in one.dataset));
    count();
  });
}
for (const one of boxes) one.addEventListener("change", count);
