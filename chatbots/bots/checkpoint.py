"""Bots that run checkpoints of `chatbots/models`, configured or shipped with Confab.

HRED, VHRED, VHCR, Seq2Seq, Transformer. Bots of this kind are configured, one per entry of `bots.yaml`. Default
decoding follows Ghandeharioun et al. (2019): beam search, with the reply drawn from its results. Options named
`compat_…` switch on their known errors to reproduce published figures.

Every folder in `chatbots/shipped` is also registered as a bot, with the folder's name as its id. Next to the
checkpoint it may contain a `bot.yaml` with the display name and decoding settings, written as an entry of
`bots.yaml` would:

    name: HRED with EI (demo)
    params: {decoding: sample, temperature: 0.7}
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatbots.bots.base import BotError, Generation
from chatbots.checkpoints import CheckpointError, Manifest, checkpoint_manifest, missing_reason
from chatbots.conversation import Conversation
from chatbots.encoders.ei_encoders import EncoderFiles, encoders_missing, reads_encoders
from chatbots.encoders.sentence import PCA_FILE
from chatbots.generation.options import CheckpointOptions
from chatbots.huggingface import import_lock
from chatbots.registry import bots
from chatbots.yaml_registry import ConfiguredBot, register_bot_kind

if TYPE_CHECKING:
    from chatbots.generation.checkpoint_batch import LoadedCheckpoint


@register_bot_kind("checkpoint")
class CheckpointBot(ConfiguredBot):
    """A neural model from its checkpoint."""

    options_type = CheckpointOptions
    options: CheckpointOptions

    kind = "checkpoint"
    version = "3"
    deterministic = True

    def __init__(self, *, name: str, title: str = "", **options: Any) -> None:
        super().__init__(name=name, title=title, **options)
        self.folder = Path(self.options.folder).expanduser()
        self.encoder_files = self.options.encoder_files or EncoderFiles()
        self.capacity = self.options.capacity
        self._loaded: LoadedCheckpoint | None = None

    @property
    def description(self) -> str:
        manifest = self._manifest()
        if manifest is None:
            return "A neural model whose checkpoint is missing on this server."
        training = _describe_training(manifest)
        ei = " with EI" if training["ei"] else ""
        bytes_each = 4 if manifest.dtype == "float32" else 2
        size = f"{manifest.weights_bytes / bytes_each / 1e6:.1f} million parameters"
        source = f", trained on {training['corpus'].replace(' + ', ', ')}" if training["corpus"] else ""
        return (
            f"{manifest.model.upper()}{ei}, {size} ({manifest.weights_bytes / 1e6:.1f} MB){source}; "
            f"decoded by {self.options.decoding}."
        )

    @property
    def params(self) -> dict[str, Any]:
        """The checkpoint's model, digest and training, and the bot's options."""
        manifest = self._manifest()
        return {
            "model": manifest.model if manifest else None,
            "digest": manifest.digest if manifest else None,
            **(_describe_training(manifest) if manifest else {}),
            "decoding": self.options.decoding,
            **{name: getattr(self.options, name) for name in _USED[self.options.decoding]},
            **{name: getattr(self.options, name) for name in _ALWAYS_USED},
            # Omitted at its default, so that bots older than this option keep their identity.
            **({"projection": "int8"} if self.options.projection == "int8" else {}),
        }

    @property
    def training_config(self) -> dict[str, Any]:
        """Configuration of the training run; empty if the checkpoint does not contain it."""
        manifest = self._manifest()
        return dict(manifest.training.get("config") or {}) if manifest else {}

    @property
    def memory_bytes(self) -> int:
        """Memory of the weights in single precision, assuming that none are shared.

        0 if the checkpoint is missing.
        """
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
            return "the package torch is not installed; see docs/guide/start.md, Installing PyTorch"
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
            BotError: the checkpoint is missing, or its files do not match its manifest.
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
        """Return a new, empty batch.

        Raises:
            BotError: the bot is not loaded.
        """
        if self._loaded is None:
            raise BotError(f"{self.name} is not loaded")
        from chatbots.generation.checkpoint_batch import BeamGeneration, SampleGeneration

        kind = BeamGeneration if self.options.decoding == "beam" else SampleGeneration
        return kind(self, self._loaded)

    def heard(self, context: Conversation) -> list[str]:
        """Return the utterances that the model reads, oldest first.

        The options `window` and `compat_*` set their number and form. A conversation without messages is read as
        one empty utterance.
        """
        texts = list(context.texts)
        if not texts or (self.options.compat_empty_first and context.offset == 0):
            texts.insert(0, "")
        if self.options.window:
            texts = texts[-self.options.window :]
        if self.options.compat_full_stop:
            texts = [_with_full_stop(text) for text in texts]
        if self.options.compat_beam_states and self.options.decoding == "beam":
            n = len(texts)
            texts = texts[: (n - 1) * self.options.beam % n + 1]
        return texts

    def with_z_conv(self, config: Any) -> Any:
        """Return VHCR's config with this bot's source of z_conv."""
        return config.model_copy(
            update={
                "infer_z_conv": self.options.z_conv == "inferred",
                "compat_redraw_z_conv": self.options.z_conv == "redrawn",
            }
        )


_USED = {
    "beam": ("beam", "reply_choice", "length_penalty", "compat_beam_states"),
    "sample": ("temperature", "top_k", "top_p"),
    "greedy": (),
}
"""Options that matter to one decoding method only."""
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


def _describe_training(manifest: Manifest) -> dict[str, Any]:
    """Return the checkpoint's corpora, EI heads and metrics, for grouping bots."""
    read = [str(c["path"]).partition(".")[0] for c in manifest.training.get("corpora", ())]
    ei = manifest.config.get("ei") or {}
    heads = [name for name in ("emotion", "sentence") if ei.get(name)]
    return {
        "corpus": " + ".join(read),
        "ei": " + ".join(heads) + (" as input" if ei.get("input_only") else ""),
        "metrics": {
            name: round(value, 4) for name, value in manifest.metrics.items() if name in _FIGURES and value is not None
        },
    }


def _with_full_stop(text: str) -> str:
    text = text.rstrip()
    return f"{text}." if text and text[-1] not in ".!?" else text


SHIPPED = Path(__file__).parent.parent / "shipped"


def shipped_bots(folder: Path = SHIPPED) -> list[type[CheckpointBot]]:
    """Return a bot class for each checkpoint folder in `folder`.

    Their constructors need no arguments.
    """
    return [_class(path) for path in sorted(folder.glob("[!._]*")) if path.is_dir()]


def _class(folder: Path) -> type[CheckpointBot]:
    settings = _settings(folder / "bot.yaml")
    title = settings.get("name") or _title(folder)

    class ShippedBot(CheckpointBot):
        """A small neural model shipped with Confab.

        Its folder has a model card.
        """

        def __init__(self) -> None:
            super().__init__(name=folder.name, title=title, folder=str(folder), **settings.get("params", {}))

    return ShippedBot


def _settings(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def _title(folder: Path) -> str:
    """Return the checkpoint's title; by default derived from its folder ("VHRED EI demo")."""
    try:
        title = checkpoint_manifest(folder).title
    except CheckpointError:
        title = ""
    parts = folder.name.split("-")
    return title or " ".join(part if part == "demo" else part.upper() for part in parts)


for _bot in shipped_bots():
    bots.register(_bot)
