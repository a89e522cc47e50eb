// A chat's socket in a preview: emits the real one's frames from a short sample, and sends nothing.

const PIECE_MS = 90;
const THINKING_MS = 900;

export class SampleSocket extends EventTarget {
  static CONNECTING = 0;
  static OPEN = 1;
  static CLOSED = 3;
  static told = { talk: [], opening: "", least: 1, still: true };

  constructor() {
    super();
    this.readyState = SampleSocket.CONNECTING;
    this.turns = [];
    setTimeout(() => this.begin(), 0);
  }

  get told() {
    return SampleSocket.told;
  }

  begin() {
    this.readyState = SampleSocket.OPEN;
    this.dispatchEvent(new Event("open"));
    const { talk, opening, still } = this.told;
    const lines = opening ? [opening, ...talk] : talk;
    const nShown = still ? lines.length : lines.length - 1;
    const isBot = (turn) => turn % 2 === (opening ? 0 : 1);
    this.turns = lines.slice(0, nShown).map((text, turn) => ({
      turn,
      speaker: isBot(turn) ? "bot" : "human",
      text,
      vote: 0,
      ...(turn && isBot(turn) && turn < nShown - 1 ? { goes_on: true } : {}), // if replies are picked
    }));
    const pending = isBot(nShown) ? { turn: nShown } : null;
    this.tell({ type: "history", turns: this.turns, can_rate: this.canRate, pending, time: this.told.time });
    if (pending) this.answer();
  }

  get canRate() {
    return this.turns.filter(({ turn, speaker }) => turn && speaker === "bot").length >= this.told.least;
  }

  send(text) {
    const frame = JSON.parse(text);
    if (frame.type === "vote" || frame.type === "marks") this.tell(frame);
    if (frame.type === "pick") this.tell({ type: "pick", turn: frame.turn, goes_on: true });
    if (frame.type !== "message") return;
    const turn = this.turns.length;
    this.turns.push({ turn, speaker: "human", text: frame.text, vote: 0 });
    this.tell({ type: "turn", turn, speaker: "human", text: frame.text, client_id: frame.client_id });
    this.answer();
  }

  // The next reply of the sample arrives word by word, as from a chatbot.
  answer() {
    const turn = this.turns.length;
    const replies = this.told.talk.filter((_, i) => i % 2);
    const text = replies[Math.floor((turn - 1) / 2) % replies.length];
    this.turns.push({ turn, speaker: "bot", text, vote: 0 });
    const pieces = text.match(/\S+\s*/gu) ?? [text];
    let offset = 0;
    pieces.forEach((piece, i) => {
      const at = offset;
      setTimeout(() => this.tell({ type: "token", turn, offset: at, text: piece }), THINKING_MS + i * PIECE_MS);
      offset += [...piece].length;
    });
    setTimeout(
      () => this.tell({ type: "reply", turn, speaker: "bot", text, can_rate: this.canRate }),
      THINKING_MS + pieces.length * PIECE_MS,
    );
  }

  tell(frame) {
    if (this.readyState !== SampleSocket.OPEN) return;
    this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) }));
  }

  close() {
    this.readyState = SampleSocket.CLOSED;
  }
}
