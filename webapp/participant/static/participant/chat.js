// The chat page. The server's rows are authoritative: after every connection `history` gives the state, frames may
// arrive twice or not at all, and everything is keyed by turn.

import { asideDue, asideFollow } from "./aside.js";
import { Composer } from "./composer.js";
import { Delivery, LostBanner, errorWords, say, warn } from "./delivery.js";
import { Log } from "./log.js";
import { Marks } from "./marks.js";
import { Outbox } from "./outbox.js";
import { byId, fill, formSend, hiddenSet, plural } from "./page.js";
import { numbersIn, reportLink, reportsOpen } from "./report_links.js";
import { Socket, socketAddress } from "./socket.js";
import { ChatTime } from "./time.js";
import { TypingCount } from "./typing.js";

const main = byId("main");
const words = JSON.parse(byId("words").textContent);
const nMin = Number(main.dataset.minExchanges);
const nMax = Number(main.dataset.maxExchanges);
const storeKey = `confab.${main.dataset.conversation}`;

const state = { connected: false, loaded: false, due: null, failed: false, canRate: false, ended: false };
// If the partner is a person: "waiting" for one, "here", or "ended"; otherwise "".
const partner = { state: main.dataset.person === undefined ? "" : "waiting", writesFirst: true };
const outbox = new Outbox(`${storeKey}.outbox`);
const time = new ChatTime(words, () => update());

// In some studies, participants label replies here.
const marks = new Map(); // turn -> Marks
function marksAdd(node, turn) {
  const wanted = main.dataset.marks;
  if (!turn || wanted === undefined || (wanted !== "all" && !wanted.split(" ").includes(String(turn)))) return;
  const box = byId("tpl-marks").content.firstElementChild.cloneNode(true);
  node.append(box);
  const cast = (of, ticked) => {
    if (socket.send({ type: "marks", turn: of, marks: ticked })) return true;
    warn(words.marks_refused);
    return false;
  };
  marks.set(turn, new Marks(box, turn, { words, cast, say }));
}

const log = new Log(byId("log"), {
  inBlocks: main.dataset.format === "markdown",
  onReply: marksAdd,
  pill: byId("new-reply"),
  onVote: (turn, value) => {
    if (socket.send({ type: "vote", turn, value })) return true;
    warn(words.vote_refused);
    return false;
  },
  onRetry: () => {
    if (!socket.send({ type: "retry" })) return;
    state.failed = false;
    log.failureEnd();
    log.typing(state.due);
    say(words.typing);
    byId("text").focus();
    update();
  },
});
const reported = numbersIn(main.dataset.reported);
log.reportOf = (turn) => reportLink(main.dataset.reportUrl, turn, reported.has(turn));
log.slowWords = words.slow;
log.onSlow = () => say(words.slow);

const composer = new Composer({
  form: byId("composer"),
  box: byId("text"),
  button: byId("send"),
  counter: byId("counter"),
  limit: Number(main.dataset.maxChars),
  draftKey: `${storeKey}.draft`,
  onSend: send,
});
// No image without its script, or in a chat without images.
let images = { isComing: false, isChosen: false, take: () => ({}), giveBack() {} };
const imagesOpen = ({ ImageChooser }) => {
  images = new ImageChooser(words);
};
if (document.getElementById("image-file")) import("./images.js").then(imagesOpen, () => {});
import("./condition.js").catch(() => {});
reportsOpen();
const typing = new TypingCount(byId("text"), main.dataset);
composer.onChange = () => {
  warn("");
  update();
};

function send() {
  const text = composer.text;
  if (state.ended || partner.state === "ended") return;
  if (partner.state === "waiting") warn(words.partner_waiting);
  else if (images.isComing) warn(words.image_coming);
  else if (!text && !images.isChosen) warn(words.empty);
  else if (state.failed) warn(words.hint_failed);
  else if (state.due !== null || outbox.message) warn(words.waiting_for_reply);
  else if (composer.nOver > 0) warn(plural(words.too_long, composer.nOver));
  else {
    outbox.put(text, { ...typing.take(), ...images.take() });
    composer.clear();
    warn("");
    byId("note")?.remove();
    log.waitingShow(outbox.message, !state.connected);
    delivery.start();
    update();
  }
}

const delivery = new Delivery(outbox, {
  send: (message) => state.connected && socket.send(message),
  onLate: () => log.waitingShow(outbox.message, true),
  onDead: () => socket.restart(),
});

const banner = new LostBanner(() => {
  if (outbox.message) log.waitingShow(outbox.message, true);
  log.follow();
});

// The message was refused: its text goes back into the box.
function takeBack(clientId, code) {
  if (!outbox.message || (clientId && !outbox.holds(clientId))) return;
  const { text, image, typing: counted } = outbox.message;
  delivery.done();
  log.waitingEnd();
  typing.giveBack(counted);
  if (code !== "bad_image") images.giveBack(image);
  composer.giveBack(text);
}

const handlers = {
  history({ turns, can_rate: canRate, pending, marks: given = {}, time: left }) {
    time.history({ time: left });
    const list = byId("log");
    const isFirst = !state.loaded;
    if (isFirst) list.setAttribute("aria-live", "off");
    const before = log.lastHumanText;
    log.history(turns);
    for (const [turn, box] of marks) box.confirm(given[turn] ?? []);
    Object.assign(state, { connected: true, loaded: true, failed: false, canRate });
    state.due = pending ? pending.turn : null;
    socket.settled();
    banner.back(words);
    if (outbox.message) {
      // It may be stored although its acknowledgement was lost: then it is already on the page.
      const drawn = log.lastHumanText === outbox.message.text && log.lastHumanText !== before;
      if (drawn) log.waitingEnd();
      else log.waitingShow(outbox.message, false);
      delivery.start();
    }
    if (isFirst) log.toBottom();
    if (state.due !== null) log.typing(state.due);
    byId("loading").hidden = true;
    // Announce only what arrives from now on.
    if (isFirst) setTimeout(() => list.setAttribute("aria-live", "polite"), 300);
  },

  turn({ turn, text, html, client_id: clientId }) {
    time.begin();
    if (outbox.holds(clientId)) {
      delivery.done();
      warn("");
      log.waitingStored({ turn, text, html });
    } else {
      log.human({ turn, text, html });
    }
    if (!log.turns.has(turn + 1)) {
      state.due = turn + 1;
      state.failed = false;
      log.typing(state.due);
      say(words.typing);
    }
  },

  token(frame) {
    log.token(frame);
  },

  html(frame) {
    log.html(frame);
  },

  trace(frame) {
    log.trace(frame);
  },

  reply({ turn, text, html, trace, can_rate: canRate }) {
    if (state.due === turn) state.due = null;
    state.failed = false;
    state.canRate = canRate;
    log.failureEnd();
    if (log.turns.has(turn)) return;
    log.reply({ turn, text, html, trace });
    say(""); // the log itself reads the reply
  },

  vote({ turn, value }) {
    const votes = log.turns.get(turn)?.votes;
    if (!votes) return;
    const mine = votes.pending !== null;
    votes.confirm(value);
    if (mine) say(value ? words.vote_saved : words.vote_cleared);
  },

  marks({ turn, marks: given }) {
    if (marks.get(turn)?.confirm(given)) say(words.marks_saved);
  },

  helpline() {
    byId("helpline").hidden = false;
    log.follow();
  },

  waiting({ state: now, seconds_left: left, writes_first: writesFirst = true }) {
    if (partner.state === "waiting" && now === "here") say(words.partner_here);
    if (now === "ended") say(words.partner_ended);
    Object.assign(partner, { state: now, writesFirst });
    if (left !== undefined) byId("partner-seconds").textContent = plural(words.partner_seconds, left);
    if (now === "waiting") say(words.partner_waiting);
  },

  error(frame) {
    const { code } = frame;
    if (code === "bot_failed") {
      if (log.turns.has(frame.turn)) return; // the reply arrived before the frame that reports it as late
      if (frame.reason === "content") {
        // A filter refused the message: it stays, marked, and the participant can write another one.
        log.refuse(frame.turn - 1);
        Object.assign(state, { due: null, failed: false, canRate: frame.can_rate ?? state.canRate });
        log.failure(frame.can, words.refused, { isOurFault: false });
        return;
      }
      state.due = frame.turn ?? state.due;
      state.failed = true;
      state.canRate = frame.can_rate ?? state.canRate;
      let title = "";
      if (frame.busy) title = words.bot_busy;
      if (frame.overdue) title = words.bot_overdue;
      if (frame.partner) {
        title = words.partner_gone;
        partner.state = "";
      }
      log.failure(frame.can ?? ["retry", "swap", "finish"], title);
      say(""); // the log itself reads the card
      return;
    }
    if (code === "unavailable" && frame.turn === undefined) {
      // Without a message of ours the connection itself failed and is retried.
      if (frame.client_id && outbox.holds(frame.client_id)) {
        delivery.again();
        warn(words.unavailable);
      }
      return;
    }
    if (code === "not_found" || code === "moved") {
      state.ended = true;
      socket.end();
    }
    if (frame.client_id) takeBack(frame.client_id, code);
    else castRefused();
    warn(code === "unavailable" ? words.vote_refused : errorWords(words, frame, composer.nOver));
    if (code === "closed" && (frame.ended || !state.canRate)) location.reload();
  },
};

// Untick labels that were not stored.
function castRefused() {
  for (const { votes } of log.turns.values()) if (votes?.pending != null) votes.refused();
  for (const box of marks.values()) if (box.pending) box.refused();
}

const socket = new Socket(socketAddress(main.dataset.ws, main.dataset.token), {
  open() {},
  frame(frame) {
    handlers[frame.type]?.(frame);
    update();
  },
  down() {
    state.connected = false;
    delivery.lost();
    castRefused();
    banner.lost();
    update();
  },
});

// Everything outside the conversation is derived from the state.
function update() {
  // The second writer answers with each message, so each message is an exchange.
  const n = partner.writesFirst ? log.nReplies : log.nMessages;
  const isLeft = partner.state === "ended" && state.due === null;
  const isLast = state.loaded && (n >= nMax || time.isOver || isLeft);
  const isOver = isLast && n > 0 && state.due === null;
  const isDue = state.due !== null || outbox.message !== null;
  asideFollow(n, { isQuiet: state.loaded && !isDue, onShown: update });
  const isAsked = asideDue();
  const isAlone = partner.state === "waiting";
  document.body.classList.toggle("is-alone", isAlone);
  composer.openFor(!isDue && !state.failed && !state.ended && !isAlone);
  byId("finished").hidden = !isOver;
  hiddenSet(byId("composer"), isAsked || (isLast && n > 0), () =>
    isOver ? byId("finished").querySelector(".button") : byId("log"),
  );
  hintShow(isDue);

  const segments = byId("segments").children;
  for (let i = 0; i < segments.length; i += 1) {
    segments[i].classList.toggle("on", n * segments.length >= (i + 1) * nMin);
  }
  // The server refuses a rating while a reply is pending; a failed one does not prevent it.
  const isOpen = state.canRate || (state.loaded && time.isLimited && time.isEnough(n, nMin, nMax));
  const canRate = isOpen && !isAsked && (!isDue || state.failed);
  const hasEnough = canRate || (state.loaded && time.isEnough(n, nMin, nMax));
  // The button keeps its place while a reply is pending, so that the page does not jump.
  document.body.classList.toggle("can-rate", hasEnough);
  let progress = canRate ? words.can_rate : words.rate_soon;
  const waits = n >= nMin ? plural(words.opens_in, time.leastMinutes) : plural(words.opens_after, nMin - n);
  if (!hasEnough) progress = n >= nMin ? waits : fill(words.progress, { n, of: nMin });
  if (isAsked && hasEnough) progress = words.answer_first;
  if (isOver) progress = isLeft ? words.partner_ended : words.complete;
  if (state.loaded) byId("progress").textContent = progress;
  document.body.classList.toggle("is-over", isOver);
  time.show();
  let why = "";
  if (!canRate && isAsked) why = words.answer_first;
  else if (!canRate) why = hasEnough ? words.rate_waits : waits;
  byId("rate-reason").textContent = state.loaded ? why : "";
  const leaveWords = byId("leave-rate-words");
  if (state.loaded) leaveWords.textContent = canRate ? leaveWords.dataset.open : why;
  for (const link of [byId("rate"), byId("leave-rate")]) {
    if (canRate) {
      link.href = main.dataset.rate;
      link.removeAttribute("aria-disabled");
      link.removeAttribute("tabindex");
    } else {
      link.removeAttribute("href");
      link.setAttribute("aria-disabled", "true");
      link.tabIndex = 0;
    }
  }
}

function hintShow(isDue) {
  let text = composer.byTouch.matches ? "" : words.hint_keys;
  if (state.failed) text = words.hint_failed;
  else if (!state.connected && state.loaded) text = words.hint_offline;
  else if (partner.state === "waiting") text = words.partner_waiting;
  else if (isDue) text = words.hint_wait;
  byId("hint").textContent = text;
}

// A chat without a rating form ends with a POST.
if (main.dataset.ends) {
  for (const link of [byId("rate"), byId("leave-rate")]) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      if (link.href) formSend(byId(main.dataset.ends));
    });
  }
}

update();
// Focus the message box, except on touch devices, whose keyboard would cover the unread page.
if (composer.byTouch.matches) byId("title").focus();
else byId("text").focus({ preventScroll: true });
document.documentElement.classList.add("started"); // watch.js waits for this
if (document.documentElement.dataset.sends !== undefined) send();
