// The arena: one message goes to two chatbots, whose chats have a socket each. The server's rows are the truth, as on
// the chat page: after every connection `history` has the current state, and everything is keyed by turn. If one of
// the two replies is picked at every turn, the bar at the bottom only ends the chat.

import { asideDue, asideFollow } from "./aside.js";
import { Composer } from "./composer.js";
import { Delivery, LostBanner, errorWords, say, warn } from "./delivery.js";
import { Outbox } from "./outbox.js";
import { byId, fill, hiddenSet, plural } from "./page.js";
import { Picks } from "./picks.js";
import { numbersIn, reportLink, reportsOpen } from "./report_links.js";
import { Rounds } from "./rounds.js";
import { Socket, socketAddress } from "./socket.js";
import { ChatTime } from "./time.js";
import { TypingCount } from "./typing.js";

import("./condition.js").catch(() => {});
reportsOpen();
const main = byId("main");
const words = JSON.parse(byId("words").textContent);
const nMin = Number(main.dataset.minExchanges);
const nMax = Number(main.dataset.maxExchanges);
const storeKey = `confab.${main.dataset.task}.${main.dataset.number}`;
const others = document.getElementById("others"); // the questions next to the choice
const firsts = main.dataset.firsts?.split(" "); // which side stands first, round by round, where replies are picked
const radios = [...document.querySelectorAll("input[name=choice]")];

const outbox = new Outbox(`${storeKey}.outbox`);
const time = new ChatTime(words, () => update());
// A choice on a page that came back because another answer was missing.
const state = { ended: false, kept: radios.find((radio) => radio.checked), wrong: byId("summary") };

const sides = [...document.querySelectorAll("[data-side]")].map(({ dataset }) => ({
  name: dataset.side,
  conversation: dataset.conversation,
  ws: dataset.ws,
  reportUrl: dataset.reportUrl,
  reported: numbersIn(dataset.reported),
  connected: false,
  loaded: false,
  due: null,
  can: null, // the options after its bot failed
  acknowledged: false,
}));
const all = (test) => sides.every(test);
const some = (test) => sides.some(test);

const rounds = new Rounds(byId("rounds"), {
  frame: byId("log"),
  pill: byId("new-reply"),
  sides: sides.map((side) => side.name),
  speakers: words.speakers,
  slowWords: words.slow,
  inBlocks: main.dataset.format === "markdown",
  firsts,
  onRead(side, text) {
    const line = document.createElement("p");
    line.dir = "auto";
    line.textContent = fill(words.said_by, { side, text });
    byId("read-aloud").append(line);
  },
});

rounds.reportOf = (name, turn) => {
  const { reportUrl, reported } = sides.find((side) => side.name === name);
  return reportLink(reportUrl, turn, reported.has(turn));
};

const picks = firsts && new Picks(rounds, sides.map((side) => side.name), words, (name, turn, equal) => {
  sides.find((side) => side.name === name).socket.send({ type: "pick", turn, equal });
});

const composer = new Composer({
  form: byId("composer"),
  box: byId("text"),
  button: byId("send"),
  counter: byId("counter"),
  limit: Number(main.dataset.maxChars),
  draftKey: `${storeKey}.draft`,
  onSend: send,
});
const typing = new TypingCount(byId("text"), main.dataset);
composer.onChange = () => {
  warn("");
  update();
};

const isDue = () => outbox.message !== null || some((side) => side.due !== null && !side.can);
const isPickDue = () => Boolean(picks && (picks.due || some((side) => side.can)));
// If replies are picked, the chat can continue with one chatbot.
const hasFailed = () => (picks ? all((side) => side.can) : some((side) => side.can));
const nComplete = () => Math.min(...sides.map((side) => rounds.nReplies(side.name)));

function send() {
  const text = composer.text;
  if (state.ended) return;
  if (!text) warn(words.empty);
  else if (hasFailed()) warn(words.hint_failed);
  else if (isDue()) warn(words.waiting_for_reply);
  else if (isPickDue()) warn(words.pick_due);
  else if (composer.nOver > 0) warn(plural(words.too_long, composer.nOver));
  else {
    outbox.put(text, typing.take());
    for (const side of sides) side.acknowledged = false;
    composer.clear();
    warn("");
    byId("note")?.remove();
    rounds.waitingShow(text, !all((side) => side.connected));
    delivery.start();
    update();
  }
}

const delivery = new Delivery(outbox, {
  // Send to both at the same time, so that neither has a head start.
  send(message) {
    if (!all((side) => side.connected && side.loaded)) return false;
    for (const side of sides) if (!side.acknowledged) side.socket.send(message);
    return true;
  },
  onLate: () => rounds.waitingShow(outbox.message.text, true),
  onDead() {
    for (const side of sides) if (!side.acknowledged) side.socket.restart();
  },
});

const banner = new LostBanner(() => {
  if (outbox.message) rounds.waitingShow(outbox.message.text, true);
  rounds.follower.follow();
});

function delivered(side) {
  side.acknowledged = true;
  if (!all((one) => one.acknowledged)) return;
  delivery.done();
  warn("");
}

// If the page was left between the two, one chat has a message that the other lacks. Its id contains its number, so
// that two pages that notice this at the same time store it once.
function levelOut() {
  if (outbox.message || !all((side) => side.loaded && side.connected)) return;
  const said = sides.map((side) => rounds.saidTo(side.name));
  const n = Math.max(...said.map((texts) => texts.length));
  for (const [i, side] of sides.entries()) {
    const number = said[i].length;
    if (number >= n || side.due !== null) continue;
    const text = said.find((texts) => texts.length > number)[number];
    const id = side.conversation.slice(0, -6) + number.toString(16).padStart(6, "0");
    side.socket.send({ type: "message", client_id: id, text });
  }
}

const handlers = {
  history(side, { turns, pending, time: left }) {
    time.history({ time: left });
    rounds.history(side.name, turns);
    Object.assign(side, { connected: true, loaded: true, can: null });
    side.due = pending ? pending.turn : null;
    side.socket.settled();
    if (side.due !== null) rounds.typing(side.name, side.due);
    for (const { turn, goes_on: goesOn } of turns) if (goesOn) picks?.stored(side.name, turn);
    goOnAlone();
    if (!all((one) => one.loaded && one.connected)) return;
    rounds.readFromHere();
    byId("loading").hidden = true;
    banner.back(words);
    rounds.follower.follow();
    if (outbox.message) {
      rounds.waitingShow(outbox.message.text, false);
      delivery.start();
    } else {
      levelOut();
    }
  },

  turn(side, { turn, text, client_id: clientId }) {
    time.begin();
    rounds.human(side.name, turn, text);
    if (outbox.holds(clientId)) delivered(side);
    if (rounds.replyAt(side.name, turn + 1).text !== null) return;
    side.due = turn + 1;
    side.can = null;
    rounds.typing(side.name, side.due);
    say(words.typing);
  },

  token(side, frame) {
    rounds.token(side.name, frame);
  },

  html(side, frame) {
    rounds.html(side.name, frame);
  },

  reply(side, { turn, text, html, trace }) {
    if (side.due === turn) side.due = null;
    side.can = null;
    rounds.reply(side.name, turn, { text, html, trace });
    goOnAlone();
    if (!isDue() && !hasFailed()) say("");
    levelOut();
  },

  helpline() {
    byId("helpline").hidden = false;
    rounds.follower.follow();
  },

  pick(side, { turn, goes_on: goesOn }) {
    if (!goesOn) return;
    picks?.stored(side.name, turn);
    say(words.picked_now);
    if (!composer.byTouch.matches) byId("text").focus({ preventScroll: true });
  },

  error(side, frame) {
    const { code } = frame;
    if (code === "bot_failed") {
      side.due = frame.turn ?? side.due;
      side.can = frame.can ?? ["retry", "swap", "finish"];
      if (frame.reason === "content") {
        byId("failed-title").textContent = words.refused;
        byId("failed").querySelector("[data-fault]").hidden = true;
      }
      if (side.due !== null) rounds.failed(side.name, side.due);
      if (hasFailed()) say(words.bot_failed);
      goOnAlone();
    } else if (code === "unavailable") {
      if (frame.client_id && outbox.holds(frame.client_id)) sendAgain();
    } else {
      if (code === "not_found" || code === "moved") {
        state.ended = true;
        side.socket.end();
      }
      if (frame.client_id && outbox.holds(frame.client_id)) refused(side, code);
      warn(errorWords(words, frame, composer.nOver));
      if (frame.ended) location.reload();
    }
  },
};

// If replies are picked and one chatbot has failed, the chat continues with the other one's reply.
function goOnAlone() {
  const failed = picks && sides.find((side) => side.can && side.due !== null);
  const other = failed && sides.find((side) => !side.can && side.due === null);
  const turn = other && rounds.replyAt(other.name, failed.due)?.turn;
  if (turn === failed?.due) other?.socket.send({ type: "pick", turn });
}

function sendAgain() {
  delivery.again();
  warn(words.unavailable);
}

// One chat refused the message. If the other has it, it is delivered later; otherwise its text goes back into the box.
function refused(side, code) {
  if (code === "too_fast" || some((one) => one !== side && one.acknowledged)) {
    sendAgain();
    return;
  }
  const { text, typing: counted } = outbox.message;
  delivery.done();
  rounds.waitingEnd();
  typing.giveBack(counted);
  composer.giveBack(text);
}

for (const side of sides) {
  side.socket = new Socket(socketAddress(side.ws, main.dataset.token), {
    open() {},
    frame(frame) {
      handlers[frame.type]?.(side, frame);
      picks?.follow();
      update();
    },
    down() {
      side.connected = false;
      delivery.lost();
      banner.lost();
      update();
    },
  });
}

const chosen = () => radios.find((radio) => radio.checked);

function canChoose() {
  const isComplete = all((side) => side.loaded && rounds.nReplies(side.name) === nComplete());
  const isQuiet = isComplete && !isDue() && !isPickDue() && !hasFailed() && !asideDue();
  return isQuiet && time.isEnough(nComplete(), nMin, nMax);
}

function choose(radio) {
  if (canChoose()) radio.checked = true;
  update();
}

for (const [i, radio] of radios.entries()) {
  radio.addEventListener("click", (event) => {
    if (canChoose()) update();
    else event.preventDefault();
  });
  radio.addEventListener("keydown", (event) => {
    const at = "1234".indexOf(event.key);
    const onward = document.documentElement.dir === "rtl" ? -1 : 1;
    const step = { ArrowRight: onward, ArrowDown: 1, ArrowLeft: -onward, ArrowUp: -1 }[event.key];
    if (at >= 0 || (step && !canChoose())) {
      event.preventDefault();
      const next = at >= 0 ? radios[at] : radios[(i + step + radios.length) % radios.length];
      next.focus();
      if (at >= 0) choose(next);
    }
  });
  radio.addEventListener("change", update);
}

document.getElementById("write-on")?.addEventListener("click", () => {
  for (const radio of radios) radio.checked = false;
  update();
  byId("text").focus();
});

byId("choice").addEventListener("submit", (event) => {
  if (canChoose() && (picks || chosen())) return;
  event.preventDefault();
  event.stopImmediatePropagation();
});

byId("failed")
  .querySelector("[data-can=retry]")
  .addEventListener("click", () => {
    for (const side of sides) {
      if (!side.can || !side.socket.send({ type: "retry" })) continue;
      side.can = null;
      rounds.typing(side.name, side.due);
    }
    say(words.typing);
    byId("text").focus();
    update();
  });

// Everything outside the conversation is derived from the state.
function update() {
  const isLoaded = all((side) => side.loaded);
  const n = nComplete();
  const isQuiet = isLoaded && !isDue() && !isPickDue() && !hasFailed();
  asideFollow(n, { isQuiet, onShown: update });
  const isAsked = asideDue();
  const isLast = n >= nMax || (time.isOver && n > 0);
  const isOver = isQuiet && isLast && !isAsked;
  const isOpen = canChoose();
  if (!isOpen) for (const radio of radios) radio.checked = false;
  if (isOpen && state.kept) {
    state.kept.checked = true;
    state.kept = null;
  }
  const picked = chosen();

  composer.openFor(!isDue() && !isPickDue() && !hasFailed() && !state.ended);
  hintShow();

  const ways = hasFailed() ? sides.flatMap((side) => (side.can ? [side.can] : [])) : [];
  byId("failed").hidden = !ways.length;
  for (const way of byId("failed").querySelectorAll("[data-can]")) {
    way.hidden = !ways.every((can) => can.includes(way.dataset.can));
  }

  for (const radio of radios) radio.setAttribute("aria-disabled", String(!isOpen));
  const instead = () => (hasFailed() ? byId("failed") : (radios[0] ?? byId("save")));
  hiddenSet(byId("choice"), hasFailed(), instead);
  hiddenSet(byId("composer"), isLast || isAsked || Boolean(picked) || hasFailed(), instead);
  byId("save").hidden = picks ? !isOpen : !picked;
  if (others) others.hidden = byId("save").hidden;
  if (!byId("save").hidden && state.wrong) {
    state.wrong.focus(); // visible now, next to the choice
    state.wrong = null;
  }
  if (!picks) byId("write-on").hidden = !picked || isOver;
  byId("chosen").textContent = picked ? `${picked.closest("label").querySelector(".long").textContent}.` : "";
  if (isLoaded) byId("choice-words").textContent = choiceWords(n, isOpen, picked, isOver);
  document.body.classList.toggle("has-chosen", Boolean(picked));
  document.body.classList.toggle("has-begun", n > 0 || isDue());
  document.body.classList.toggle("can-choose", isOpen);
  time.show();
}

function choiceWords(n, isOpen, picked, isOver) {
  if (asideDue()) return words.choose_asked;
  if (picked) return isOver ? "" : words.chosen;
  if (isOver) return words.choose_last;
  if (isOpen) return words.choose_now;
  if (n >= nMin && !isDue() && time.leastMinutes) return plural(words.choose_in, time.leastMinutes);
  return n < nMin && !isDue() ? plural(words.choose_after, nMin - n) : words.choose_later;
}

function hintShow() {
  let text = composer.byTouch.matches ? "" : words.hint_keys;
  if (!all((side) => side.connected) && all((side) => side.loaded)) text = words.hint_offline;
  else if (isDue()) text = words.hint_wait;
  else if (isPickDue()) text = words.pick_due;
  byId("hint").textContent = text;
}

update();
if (composer.byTouch.matches) byId("title").focus();
else byId("text").focus({ preventScroll: true });
document.documentElement.classList.add("started"); // watch.js waits for this
if (document.documentElement.dataset.sends !== undefined) send();
