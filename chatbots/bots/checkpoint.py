"""A bot made of a checkpoint of `chatbots/models`: HRED, VHRED, VHCR, Seq2Seq, Transformer.

Bots of this kind are configured, one per entry of `bots.yaml`; the checkpoints that come with Confab are
registered by `chatbots/bots/shipped.py`. Decoding as in Ghandeharioun et al. (2019) by default: beam search,
the reply drawn among its results. Their known errors can be had by name (`compat_…`), to reproduce figures.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chatbots.base import BotDefaults, BotError, Generation
from chatbots.checkpoints import CheckpointError, Manifest, checkpoint_manifest, missing_reason
from chatbots.config_values import config_values_read
from chatbots.conversation import Conversation
from chatbots.encoders.named import EncoderFiles
from chatbots.encoders.pca import PCA_FILE
from chatbots.generation.ei_inputs import encoders_missing, reads_encoders
from chatbots.imports import import_lock

if TYPE_CHECKING:
    from chatbots.generation.checkpoint_batch import LoadedCheckpoint


class CheckpointBot(BotDefaults):
    """A neural model from its checkpoint.

    Args:
        name, title: as of any bot.
        folder: of the checkpoint: manifest.json, vocabulary.txt, model.safetensors.
        decoding: "beam", "sample" or "greedy"; a beam's reply comes in one piece, the others word by word.
        beam: hypotheses that beam search keeps.
        reply_choice: among a beam's results: "best"; or drawn as in the paper, by rank ("priority") or by
            length ("length").
        length_penalty: of beam search; 0: none, larger favours longer replies (Wu et al. 2016).
        temperature: of sampling; below 1 safer, above 1 wilder.
        top_k: of sampling: only the k likeliest words; 0: all.
        top_p: of sampling: only the fewest words holding this share of the probability; 1: all.
        no_repeat_ngram_size: no sequence of so many words twice in a reply; 0: off.
        forbid_unknown: never say the unknown word.
        window: most turns of the conversation given to the model; 0: all.
        max_tokens: a reply's longest, in words and signs.
        min_tokens: its shortest; 1 keeps replies from being empty.
        z_conv: VHCR's variable of the conversation: "drawn" once, "inferred" from the context, or
            "redrawn" at every reply as the released code did; none: as the checkpoint's config says.
        compat_beam_states: as the released code, beam search reads the state of an older message: the
            latest is ignored at 3 turns and from 5 on (with a beam of 5).
        compat_full_stop: as there, a full stop is put after utterances without an end sign.
        compat_empty_first: as in its self-play, an empty utterance stands before the conversation.
        encoder_files: where DeepMoji and InferSent are, for a model that was trained as input_only with them:
            {deepmoji: {weights, vocabulary}, infersent: {weights, vectors}}.
        capacity: most replies under way at once.

    Raises:
        ValueError: for a parameter out of its range.
    """

    kind = "checkpoint"
    version = "2"
    deterministic = True

    def __init__(
        self,
        *,
        name: str,
        folder: str,
        title: str = "",
        decoding: Literal["beam", "sample", "greedy"] = "beam",
        beam: int = 5,
        reply_choice: Literal["best", "priority", "length"] = "priority",
        length_penalty: float = 0.0,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        no_repeat_ngram_size: int = 0,
        forbid_unknown: bool = True,
        window: int = 5,
        max_tokens: int = 30,
        min_tokens: int = 1,
        z_conv: Literal["drawn", "inferred", "redrawn"] | None = None,
        compat_beam_states: bool = False,
        compat_full_stop: bool = False,
        compat_empty_first: bool = False,
        encoder_files: dict[str, Any] | None = None,
        capacity: int = 64,
    ) -> None:
        _check("folder", folder, bool(folder), "the folder of a checkpoint")
        _check("decoding", decoding, decoding in _DECODINGS, " or ".join(_DECODINGS))
        _check("beam", beam, beam >= 1, "1 or more")
        _check("reply_choice", reply_choice, reply_choice in _CHOICES, " or ".join(_CHOICES))
        _check("length_penalty", length_penalty, length_penalty >= 0, "0 or more")
        _check("temperature", temperature, 0 < temperature <= 10, "above 0 and at most 10")
        _check("top_k", top_k, top_k >= 0, "0 (all words) or more")
        _check("top_p", top_p, 0 < top_p <= 1, "above 0 and at most 1")
        _check("no_repeat_ngram_size", no_repeat_ngram_size, no_repeat_ngram_size >= 0, "0 or more")
        _check("window", window, window >= 0, "0 (the whole conversation) or more")
        _check("max_tokens", max_tokens, max_tokens >= 1, "1 or more")
        fits = 1 <= min_tokens <= max_tokens
        _check("min_tokens", min_tokens, fits, f"1 to max_tokens ({max_tokens})")
        _check("z_conv", z_conv, z_conv in (None, *_Z_CONV), " or ".join(_Z_CONV))
        _check("capacity", capacity, capacity >= 1, "1 or more")
        self.name = name
        self.title = title or name
        self.folder = Path(folder).expanduser()
        self.decoding = decoding
        self.beam = beam
        self.reply_choice = reply_choice
        self.length_penalty = length_penalty
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.no_repeat_ngram_size = no_repeat_ngram_size
        self.forbid_unknown = forbid_unknown
        self.window = window
        self.max_tokens = max_tokens
        self.min_tokens = min_tokens
        self.z_conv = z_conv
        self.compat_beam_states = compat_beam_states
        self.compat_full_stop = compat_full_stop
        self.compat_empty_first = compat_empty_first
        self.encoder_files: EncoderFiles = config_values_read(
            EncoderFiles, encoder_files or {}, "encoder_files."
        )
        self.capacity = capacity
        self._loaded: LoadedCheckpoint | None = None

    @property
    def description(self) -> str:
        manifest = self._manifest()
        if manifest is None:
            return "A neural model whose checkpoint is not here."
        made = _made(manifest)
        ei = " with EI" if made["ei"] else ""
        bytes_each = 4 if manifest.dtype == "float32" else 2
        size = f"{manifest.weights_bytes / bytes_each / 1e6:.1f} million parameters"
        source = f", trained on {made['corpus'].replace(' + ', ', ')}" if made["corpus"] else ""
        return (
            f"{manifest.model.upper()}{ei}, {size} ({manifest.weights_bytes / 1e6:.1f} MB){source}; "
            f"decoded by {self.decoding}."
        )

    @property
    def params(self) -> dict[str, Any]:
        """Which checkpoint, and how it is read and decoded."""
        manifest = self._manifest()
        return {
            "model": manifest.model if manifest else None,
            "digest": manifest.digest if manifest else None,
            **(_made(manifest) if manifest else {}),
            "decoding": self.decoding,
            **{name: getattr(self, name) for name in _USED[self.decoding]},
            **{name: getattr(self, name) for name in _ALWAYS_USED},
        }

    @property
    def memory_bytes(self) -> int:
        """Of the weights in single precision, none of them shared; 0 if the checkpoint is not here."""
        manifest = self._manifest()
        if manifest is None:
            return 0
        return manifest.weights_bytes * (1 if manifest.dtype == "float32" else 2)

    def _manifest(self) -> Manifest | None:
        try:
            return checkpoint_manifest(self.folder)
        except CheckpointError:
            return None

    def unavailable_reason(self) -> str | None:
        if find_spec("torch") is None:
            return "the package torch is not installed; see README, Installing PyTorch"
        reason = missing_reason(self.folder)
        manifest = self._manifest()
        if reason is None and manifest and reads_encoders(manifest):
            if not (self.folder / PCA_FILE).is_file():
                return f"{self.folder} has no {PCA_FILE}, which a model trained as input_only needs"
            return encoders_missing(manifest, self.encoder_files)
        return reason

    def load(self, device: str) -> None:
        """Load weights and vocabulary.

        Raises:
            BotError: if the checkpoint is not here or not what it says.
        """
        if self._loaded is None:
            with import_lock:
                from chatbots.generation.checkpoint_batch import LoadedCheckpoint

            try:
                self._loaded = LoadedCheckpoint(self, device)
            except (CheckpointError, ValueError, KeyError) as error:
                raise BotError(f"{self.name} cannot be loaded: {error}") from error

    def unload(self) -> None:
        self._loaded = None

    def start(self) -> Generation:
        """An empty running batch.

        Raises:
            BotError: if the bot is not loaded.
        """
        if self._loaded is None:
            raise BotError(f"{self.name} is not loaded")
        from chatbots.generation.checkpoint_batch import BeamGeneration, SampleGeneration

        kind = BeamGeneration if self.decoding == "beam" else SampleGeneration
        return kind(self, self._loaded)

    def heard(self, context: Conversation) -> list[str]:
        """The utterances the model reads, oldest first; one that is empty where it opens the conversation."""
        texts = list(context.texts)
        if not texts or (self.compat_empty_first and context.offset == 0):
            texts.insert(0, "")
        if self.window:
            texts = texts[-self.window :]
        if self.compat_full_stop:
            texts = [_with_full_stop(text) for text in texts]
        if self.compat_beam_states and self.decoding == "beam":
            n = len(texts)
            texts = texts[: (n - 1) * self.beam % n + 1]
        return texts

    def with_z_conv(self, config: Any) -> Any:
        """VHCR's config with this bot's way to come by z_conv."""
        return replace(
            config,
            infer_z_conv=self.z_conv == "inferred",
            compat_redraw_z_conv=self.z_conv == "redrawn",
        )


_DECODINGS = ("beam", "sample", "greedy")
_CHOICES = ("best", "priority", "length")
_Z_CONV = ("drawn", "inferred", "redrawn")
_USED = {
    "beam": ("beam", "reply_choice", "length_penalty", "compat_beam_states"),
    "sample": ("temperature", "top_k", "top_p"),
    "greedy": (),
}
"""Settings that decide the replies of one way of decoding only."""
_ALWAYS_USED = (
    "no_repeat_ngram_size",
    "forbid_unknown",
    "window",
    "max_tokens",
    "min_tokens",
    "z_conv",
    "compat_full_stop",
    "compat_empty_first",
)


_FIGURES = ("perplexity", "kl", "average", "extrema", "greedy")


def _made(manifest: Manifest) -> dict[str, Any]:
    """How the checkpoint came about, for analyses that compare bots by it."""
    read = [str(c["path"]).partition(".")[0] for c in manifest.training.get("corpora", ())]
    ei = manifest.config.get("ei") or {}
    heads = [name for name in ("emotion", "sentence") if ei.get(name)]
    return {
        "corpus": " + ".join(read),
        "ei": " + ".join(heads) + (" as input" if ei.get("input_only") else ""),
        "metrics": {
            name: round(value, 4)
            for name, value in manifest.metrics.items()
            if name in _FIGURES and value is not None
        },
    }


def _with_full_stop(text: str) -> str:
    text = text.rstrip()
    return f"{text}." if text and text[-1] not in ".!?" else text


def _check(name: str, value: object, ok: bool, right: str) -> None:
    if not ok:
        raise ValueError(f"{name} is {value!r}; it must be {right}")
