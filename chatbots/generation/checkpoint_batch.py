"""Running batches of a `CheckpointBot`.

`SampleGeneration` generates one word per conversation and step and streams it; `BeamGeneration` searches and returns
each reply when it is complete. Each conversation's choices and latents come from its own seeds.

The projection of a decoder's state onto the vocabulary may be computed in eight-bit integers, which is less exact but
faster on CPUs. With 20,000 words it is most of a recurrent decoder's computation. Weights are rounded once, with one
scale per word of the vocabulary. States are rounded at each step, with one scale per row, so that a row's logits do
not depend on the rest of the batch. Integer products are summed exactly, so the result is equal on any processor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from chatbots.bots.base import Piece
from chatbots.checkpoints import checkpoint_load
from chatbots.conversation import Conversation
from chatbots.corpora.vocabulary import EOS, PAD, SOS, UNK, tokeniser_get
from chatbots.encoders.ei_encoders import EIInputs, EncoderFiles, reads_encoders
from chatbots.generation.decoding import NO_NUMBERS, ReplyRow, choose, forbid
from chatbots.generation.options import CheckpointOptions
from chatbots.models.batch import DecoderState, DialogueBatch, ReplySeeds
from chatbots.models.beam_search import BeamSearch, BeamSettings, Hypothesis, pick_hypothesis
from chatbots.models.layers import UtteranceEncoder

_LARGEST = 127


class Int8Linear(nn.Module):
    """Eight-bit linear layer converted from a floating-point one, for generation only.

    Args:
        linear: V × H, with a bias.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        integers, scale = quantise_rows(linear.weight.detach())
        self.register_buffer("weight", integers)  # (V, H), int8
        self.register_buffer("scale", scale.squeeze(-1))  # (V,)
        self.register_buffer("bias", linear.bias.detach())

    def forward(self, states: Tensor) -> Tensor:
        """Project rows, (R, H) → (R, V), in single precision."""
        integers, scale = quantise_rows(states)
        products = torch._int_mm(integers, self.weight.t())  # (R, V), int32
        return torch.addcmul(self.bias, products.float().mul_(scale), self.scale)


def quantise_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Round each row to whole numbers from −127 to 127.

    Returns:
        The integers, (R, H) int8, and the scale of each row, (R, 1).
    """
    scale = rows.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / _LARGEST
    return (rows / scale).round_().to(torch.int8), scale


def quantise_projection(model: nn.Module) -> None:
    """Replace a model's projection by an `Int8Linear`.

    Raises:
        ValueError: the model has no separate projection.
    """
    for owner in (getattr(model, "decoder", None), model):
        linear = getattr(owner, "project", None)
        if owner is not None and isinstance(linear, nn.Linear):
            owner.project = Int8Linear(linear)
            return
    raise ValueError("projection is int8, but this model's projection is its embedding; leave projection at float32")


N_REMEMBERED = 2048
"""Number of cached utterances per bot, enough for about 300 concurrent conversations."""


class CheckpointSpeaker(Protocol):
    """Protocol of a bot with a checkpoint: folder, context and decoding options."""

    folder: Path
    options: CheckpointOptions
    encoder_files: EncoderFiles

    def heard(self, context: Conversation) -> list[str]:
        """Return the utterances that the model reads, oldest first."""
        ...

    def with_z_conv(self, config: Any) -> Any:
        """Return the model's config with the bot's source of VHCR's z_conv."""
        ...


class RememberedUtterances(nn.Module):
    """Utterance encoder with a cache.

    Most of a context was already encoded a turn ago.

    Args:
        encoder: in evaluation mode; its weights must not change afterwards.
        n: maximum number of cached utterances.
    """

    def __init__(self, encoder: UtteranceEncoder, n: int = N_REMEMBERED) -> None:
        super().__init__()
        self.encoder = encoder
        self._n = n
        self._known: OrderedDict[tuple[int, ...], Tensor] = OrderedDict()  # ids → (2H_e,)

    def forward(self, utterances: Tensor, lengths: Tensor) -> Tensor:
        """Encode utterances like the encoder: (B, N, T), (B, N) → (B, N, 2H_e)."""
        is_utterance = lengths > 0  # (B, N)
        ids = utterances[is_utterance].tolist()
        keys = [tuple(row[:n]) for row, n in zip(ids, lengths[is_utterance].tolist(), strict=True)]
        first = {key: row for row, key in enumerate(keys)}
        fresh = [row for key, row in first.items() if key not in self._known]
        states = {key: self._known[key] for key in first if key in self._known}
        if fresh:
            # Truncate to the longest new utterance, so that a long cached one costs nothing.
            n_tokens = max(len(keys[row]) for row in fresh)
            new = utterances[is_utterance][fresh, :n_tokens][:, None]  # (M, 1, T')
            encoded = self.encoder(new, lengths[is_utterance][fresh][:, None])[:, 0]  # (M, 2H_e)
            # Copies: a view would keep the whole encoded batch alive.
            states |= {keys[row]: h.clone() for row, h in zip(fresh, encoded, strict=True)}
        for key, h in states.items():
            self._known[key] = h
            self._known.move_to_end(key)
        while len(self._known) > self._n:
            self._known.popitem(last=False)
        width = 2 * self.encoder.rnn.hidden_size
        out = self.encoder.embedding.weight.new_zeros(*lengths.shape, width)  # (B, N, 2H_e)
        if keys:
            out[is_utterance] = torch.stack([states[key] for key in keys])
        return out


class LoadedCheckpoint:
    """Loaded model with tokeniser, vocabulary and encoders."""

    def __init__(self, bot: CheckpointSpeaker, device: str) -> None:
        self.bot = bot
        self.model, self.vocabulary, manifest = checkpoint_load(bot.folder, device, share=True)
        self.tokeniser = tokeniser_get(manifest.tokeniser)
        encoder = getattr(self.model, "encoder", None)
        if isinstance(encoder, UtteranceEncoder):
            self.model.encoder = RememberedUtterances(encoder)
        if bot.options.projection == "int8":
            if self.model.device.type != "cpu":
                raise ValueError(f"projection is int8, which is for CPUs only, but the device is {device}")
            quantise_projection(self.model)
        z_conv = bot.options.z_conv
        if z_conv is not None and hasattr(self.model.config, "infer_z_conv"):
            self.model.config = bot.with_z_conv(self.model.config)
        self.forbidden = (PAD, SOS, UNK) if bot.options.forbid_unknown else (PAD, SOS)
        self.ei_inputs: EIInputs | None = None
        if reads_encoders(manifest):
            self.ei_inputs = EIInputs(bot.folder, manifest, bot.encoder_files, device)

    def encode(self, contexts: Sequence[Conversation]) -> DecoderState:
        """Encode the contexts and return the decoder's state, one row per context."""
        heard = [self.bot.heard(context) for context in contexts]
        ids = [[self.vocabulary.ids(self.tokeniser.tokenise(text)) for text in texts] for texts in heard]
        emotion, sentence = self._read(heard)
        batch = DialogueBatch.from_ids(ids, emotion=emotion, sentence=sentence).to(self.model.device)
        return self.model.encode_context(batch, [ReplySeeds.from_conversation(context) for context in contexts])

    def _read(self, heard: list[list[str]]) -> tuple[list[Tensor], list[Tensor]] | tuple[None, None]:
        """Return the emotions and embeddings that an input-only EI model reads."""
        if self.ei_inputs is None:
            return None, None
        inputs = [self.ei_inputs(texts) for texts in heard]
        emotions = [torch.from_numpy(emotion) for emotion, _ in inputs]
        return emotions, [torch.from_numpy(sentence) for _, sentence in inputs]

    def text(self, ids: Sequence[int]) -> str:
        """Return the readable text of a reply's ids."""
        return self.tokeniser.detokenise(self.vocabulary.tokens(ids))


class SampleGeneration:
    """Batch of greedy or sampled replies, one word per step.

    Row i is slot i.

    Implements `chatbots.bots.base.Generation`.
    """

    def __init__(self, bot: CheckpointSpeaker, ready: LoadedCheckpoint) -> None:
        self._bot = bot
        self._ready = ready
        self._slots: list[ReplyRow] = []
        self._state: DecoderState | None = None
        self._n_admitted = 0

    def admit(self, contexts: Sequence[Conversation]) -> list[int]:
        self._state = join_words(self._state, self._ready.encode(contexts))
        numbers = list(range(self._n_admitted, self._n_admitted + len(contexts)))
        self._n_admitted += len(contexts)
        pairs = zip(numbers, contexts, strict=True)
        self._slots += [
            ReplyRow(
                number,
                context,
                max_tokens=self._bot.options.max_tokens,
                no_repeat_ngram_size=self._bot.options.no_repeat_ngram_size,
            )
            for number, context in pairs
        ]
        return numbers

    def cancel(self, slot: int) -> None:
        remaining = [row for row, s in enumerate(self._slots) if s.number != slot]
        if self._state is not None and len(remaining) < len(self._slots):
            self._keep(remaining)

    def step(self) -> list[Piece]:
        """Add a word to every reply and return the new pieces."""
        if self._state is None:
            return []
        with torch.inference_mode():
            return self._step(self._state)

    def _step(self, state: DecoderState) -> list[Piece]:
        bot, ready, slots = self._bot, self._ready, self._slots
        last_tokens = [slot.tokens[-1] if slot.tokens else SOS for slot in slots]
        model = ready.model
        logits, self._state = model.step(torch.tensor(last_tokens, device=model.device), state)  # (R, V)
        broken = logits[:, PAD].isnan()  # (R,)
        forbid(logits, ready.forbidden, map(self._forbidden, slots))
        chosen = choose(
            logits,
            [slot.uniform for slot in slots],
            temperature=0 if bot.options.decoding == "greedy" else bot.options.temperature,
            top_k=bot.options.top_k,
            top_p=bot.options.top_p,
        )  # (R,)
        value = logits.gather(-1, chosen[:, None])[:, 0]  # (R,)
        chosen = chosen.where(~value.isneginf(), EOS)  # every token is forbidden, so end the reply here
        chosen = chosen.where(~broken, -1)
        pieces: list[Piece] = []
        running = []
        for row, token in enumerate(chosen.tolist()):
            piece = self._add_token(slots[row], token)
            if not (piece.done or piece.error):
                running.append(row)
            if piece.text or piece.done or piece.error:
                pieces.append(piece)
        if len(running) < len(slots):
            self._keep(running)
        return pieces

    def _forbidden(self, slot: ReplyRow) -> set[int]:
        """Return the tokens that are forbidden at the next position."""
        may_not_end = {EOS} if len(slot.tokens) < self._bot.options.min_tokens else set()
        return slot.forbidden() | may_not_end

    def _add_token(self, slot: ReplyRow, token: int) -> Piece:
        """Add a token to a reply and return its piece.

        −1 stands for NaN.
        """
        if token < 0:
            return Piece(slot.number, error=NO_NUMBERS)
        if token != EOS:
            slot.say(token)
        return slot.piece(self._ready.text(slot.tokens), ended=token == EOS)

    def _keep(self, rows: list[int]) -> None:
        """Keep only these rows."""
        assert self._state is not None
        self._slots = [self._slots[row] for row in rows]
        self._state = self._state.select(rows) if rows else None


class BeamGeneration:
    """Batch of beam searches.

    Slot i has the rows i·beam … i·beam + beam − 1.

    Implements `chatbots.bots.base.Generation`.
    """

    def __init__(self, bot: CheckpointSpeaker, ready: LoadedCheckpoint) -> None:
        self._bot = bot
        self._ready = ready
        self._search = BeamSearch(
            BeamSettings(
                beam=bot.options.beam,
                max_tokens=bot.options.max_tokens,
                end=EOS,
                length_penalty=bot.options.length_penalty,
                min_tokens=bot.options.min_tokens,
                forbidden=ready.forbidden,
                no_repeat_ngram=bot.options.no_repeat_ngram_size,
            )
        )
        self._slots: dict[int, ReplyRow] = {}  # in the order of the rows
        self._state: DecoderState | None = None
        self._tokens: list[int] = []

    def admit(self, contexts: Sequence[Conversation]) -> list[int]:
        newcomers = self._ready.encode(contexts).repeat(self._bot.options.beam)
        self._state = join_words(self._state, newcomers)
        self._tokens += [SOS] * newcomers.n_rows
        numbers = self._search.admit(len(contexts))
        for number, context in zip(numbers, contexts, strict=True):
            self._slots[number] = ReplyRow(number, context, max_tokens=self._bot.options.max_tokens)
        return numbers

    def cancel(self, slot: int) -> None:
        if slot in self._slots:
            self._close(slot)

    def step(self) -> list[Piece]:
        """Extend every hypothesis by a word and return the complete replies."""
        if self._state is None:
            return []
        model = self._ready.model
        with torch.inference_mode():
            tokens = torch.tensor(self._tokens, device=model.device)
            logits, self._state = model.step(tokens, self._state)  # (R, V)
            broken = logits[:, PAD].isnan().view(-1, self._bot.options.beam).any(-1).tolist()
            pieces = []
            for number in [n for n, bad in zip(self._slots, broken, strict=True) if bad]:
                logits = logits[self._close(number)]
                pieces.append(Piece(number, error=NO_NUMBERS))
            if not self._slots:
                return pieces
            move = self._search.advance(logits)
            self._keep(move.rows, move.tokens)
        return pieces + [self._piece(number, found) for number, found in move.finished.items()]

    def _close(self, number: int) -> list[int]:
        """Remove a slot and return the remaining rows."""
        del self._slots[number]
        rows = self._search.cancel(number)
        self._keep(rows, [self._tokens[row] for row in rows])
        return rows

    def _keep(self, rows: list[int], tokens: list[int]) -> None:
        assert self._state is not None
        self._tokens = tokens
        self._state = self._state.select(rows) if rows else None

    def _piece(self, number: int, hypotheses: list[Hypothesis]) -> Piece:
        slot = self._slots.pop(number)
        chosen = pick_hypothesis(hypotheses, slot.uniform, rule=self._bot.options.reply_choice, unknown=UNK)
        return slot.last_piece(self._ready.text(chosen.tokens), cut=not chosen.ended)


def join_words(state: DecoderState | None, newcomers: DecoderState) -> DecoderState:
    """Append the rows of admitted requests to those of a running batch."""
    return newcomers if state is None else type(newcomers).join([state, newcomers])
