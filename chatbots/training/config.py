"""What a training is asked to do: a YAML file, read into frozen dataclasses and checked before any work starts.

    name: hred-small
    model: hred
    sizes: {E: 256, H_e: 256, H_d: 256, C: 256}     # the model's own config, without V
    data:
      corpora: [{path: talk.jsonl.gz}, {path: everyday, repeat: 4}]
    optimiser: {lr: 1e-3, epochs: 5}

Defaults are the paper's (Ghandeharioun et al. 2019; fact sheet sections 6 and 7.1).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from chatbots.config_values import ConfigError, at_least, config_values_read
from chatbots.corpora.formats import FORMATS
from chatbots.corpora.text import RECOMMENDED, TOKENISERS
from chatbots.encoders.named import GOEMOTIONS
from chatbots.identity import canonical_json
from chatbots.models.catalogue import MODELS, config_read
from chatbots.names import nearest_names
from chatbots.training.bases import base_applied, base_find, yaml_read
from chatbots.training.ei import EITraining

EVERYDAY = "everyday"
"""The `path` that stands for the corpus written for this project; it needs no file of the user's."""

WITH_EI = ("hred", "vhred", "vhcr")
WITH_LATENTS = ("vhred", "vhcr")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """One corpus.

    Attributes:
        path: file or folder, relative to the data folder; "everyday" is the project's own.
        format: how it is written (`chatbots.corpora.formats`).
        repeat: how often its training dialogues are read in an epoch: a small corpus beside a large one.
        licence: of the data, for the model card.
    """

    path: str
    format: str = "jsonl"
    repeat: int = 1
    licence: str = ""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            near = nearest_names(self.format, list(FORMATS), limit=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"format is {self.format!r}; {hint}It must be one of {', '.join(FORMATS)}"
            )
        at_least(self, repeat=1)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """From corpora to batches.

    Attributes:
        corpora: at least one.
        tokeniser: how text is cut into words.
        max_words: most words of the vocabulary, the four special ones included.
        min_count: a word that is rarer in the training text is unknown.
        n_utterances: utterances of a window.
        windows: "first": the first `n_utterances` of each dialogue, as the paper; "slide": all of them, in
            windows in which each reply is learnt once.
        max_tokens: longest utterance, `<eos>` included.
        whole_sentences: cut a longer utterance after its last sentence that fits, not in the middle of one.
        validation, test: share of the dialogues held out of each corpus.
        split_seed: of that choice.
    """

    corpora: tuple[CorpusConfig, ...]
    tokeniser: str = RECOMMENDED
    max_words: int = 20_000
    min_count: int = 5
    n_utterances: int = 10
    windows: Literal["first", "slide"] = "first"
    max_tokens: int = 30
    whole_sentences: bool = False
    validation: float = 0.1
    test: float = 0.1
    split_seed: int = 0

    def __post_init__(self) -> None:
        if not self.corpora:
            raise ConfigError("corpora is empty; at least one corpus is wanted")
        if self.tokeniser not in TOKENISERS:
            raise ConfigError(
                f"tokeniser is {self.tokeniser!r}; it must be one of {', '.join(TOKENISERS)}"
            )
        at_least(self, max_words=5, min_count=1, n_utterances=2, max_tokens=2)
        for name in ("validation", "test"):
            if not 0 < getattr(self, name) < 0.5:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; a share above 0 and below 0.5 is wanted"
                )


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """Adam over epochs.

    Attributes:
        batch_size: windows.
        lr: learning rate.
        schedule: "constant", or "linear": down to 0 over all the batches that are planned.
        warmup: batches over which the learning rate rises to `lr` first.
        clip: largest norm of the gradient.
        epochs: how often the training text is read, at most.
        max_batches: stop after so many; 0: no limit but `epochs`.
        patience: stop after so many validations without a better one; 0: never.
        precision: "bfloat16" runs matrix products in half the width; "auto" does where there is a GPU.
        max_skipped: most batches left out because their gradient is not finite; beyond, the training stops.
    """

    batch_size: int = 64
    lr: float = 1e-4
    schedule: Literal["constant", "linear"] = "constant"
    warmup: int = 0
    clip: float = 1.0
    epochs: int = 30
    max_batches: int = 0
    patience: int = 3
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    max_skipped: int = 10

    def __post_init__(self) -> None:
        at_least(self, batch_size=1, epochs=1, max_batches=0, patience=0, warmup=0, max_skipped=0)
        for name in ("lr", "clip"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be above 0")


@dataclass(frozen=True, kw_only=True)
class RegularisationConfig:
    """What keeps latent variables from being ignored.

    Attributes:
        kl_batches: the KL term's weight rises linearly from 0 to 1 over so many batches, counted over epochs.
        word_drop: share of the decoder's input words replaced by `<unk>`.
        sentence_drop: share of the utterances hidden from VHCR's context.
    """

    kl_batches: int = 25_000
    word_drop: float = 0.0
    sentence_drop: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, kl_batches=0)
        for name in ("word_drop", "sentence_drop"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; from 0 to below 1 is wanted")


@dataclass(frozen=True, kw_only=True)
class StartConfig:
    """Where the weights begin.

    Attributes:
        weights: name of a finished training beside this one (same output folder, same vocabulary) whose
            weights are taken over; a larger matrix takes them into its first rows and columns. Empty: none.
        word_vectors: begin the embedding with static word vectors of the sentence encoder.
        word_counts: begin the output's bias with the log of how often each word is said in the training text.
        listening: begin with a context that takes in the latest utterance at once, and a decoder that hears
            it: for trainings of thousands of batches. The paper's models begin by keeping what they were, and
            take tens of thousands to turn to what is said.
    """

    weights: str = ""
    word_vectors: bool = False
    word_counts: bool = False
    listening: bool = False


@dataclass(frozen=True, kw_only=True)
class HeldOutConfig:
    """How the finished model is measured.

    Attributes:
        samples: importance samples behind the perplexity of a model with latent variables.
        max_windows: measure on so many windows of the test text; 0: all.
        max_replies: generate so many first replies for the embedding metrics; 0: all.
        beam: hypotheses of the search for those; 1: greedy.
    """

    samples: int = 100
    max_windows: int = 0
    max_replies: int = 0
    beam: int = 1

    def __post_init__(self) -> None:
        at_least(self, samples=1, max_windows=0, max_replies=0, beam=1)


@dataclass(frozen=True, kw_only=True)
class KeepingConfig:
    """When something is written.

    Attributes:
        log_every: batches between two lines of the log.
        save_every: batches between two states to resume from; each epoch ends with one, too.
        validate_every: batches between two validations; 0: at the end of each epoch.
    """

    log_every: int = 50
    save_every: int = 1000
    validate_every: int = 0

    def __post_init__(self) -> None:
        at_least(self, log_every=1, save_every=1, validate_every=0)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Everything a training is asked to do. Equal configs on equal data train equal models.

    Attributes:
        name: of the folder it writes.
        model: one of `chatbots.models.catalogue.MODELS`.
        sizes: the model's own config without V and ei, which follow from the data and from `ei`.
        seed: of the first weights, the order of batches, and everything drawn.
        title: a name for people.
        data_folder: where relative paths of corpora begin; given by the caller, not by the file.
    """

    name: str
    model: str
    data: DataConfig
    sizes: dict[str, Any] = field(default_factory=dict)
    ei: EITraining | None = None
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    regularisation: RegularisationConfig = field(default_factory=RegularisationConfig)
    start: StartConfig = field(default_factory=StartConfig)
    held_out: HeldOutConfig = field(default_factory=HeldOutConfig)
    keeping: KeepingConfig = field(default_factory=KeepingConfig)
    seed: int = 0
    title: str = ""
    data_folder: str = "."

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ConfigError(f"model is {self.model!r}; it must be one of {', '.join(MODELS)}")
        if not self.name or Path(self.name).name != self.name or self.name.startswith("."):
            raise ConfigError(f"name is {self.name!r}; the plain name of a folder is wanted")
        for key in ("V", "ei"):
            if key in self.sizes:
                where = "the vocabulary" if key == "V" else "the key ei beside sizes"
                raise ConfigError(f"sizes.{key} is no key here; it follows from {where}")
        try:
            config_read(self.model, {"V": self.data.max_words, **self.sizes})
        except ConfigError as error:
            raise ConfigError(f"sizes.{error}") from None
        if self.ei is not None and self.model not in WITH_EI:
            raise ConfigError(
                f"ei is given for {self.model!r}, which has no context to teach; "
                f"only {', '.join(WITH_EI)} have"
            )
        if self.regularisation.sentence_drop and self.model != "vhcr":
            raise ConfigError(
                f"regularisation.sentence_drop is {self.regularisation.sentence_drop}; only vhcr has it"
            )
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed is {self.seed}; from 0 to 2^63 - 1 is wanted")
        if self.start.word_vectors and not self.start.weights and "E" in self.sizes:
            from chatbots.encoders.words import DIMENSION

            if self.sizes["E"] != DIMENSION:
                raise ConfigError(
                    f"start.word_vectors needs sizes.E of {DIMENSION}, the width of the static word "
                    f"vectors; it is {self.sizes['E']}"
                )

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of everything that decides the weights: neither title nor folders."""
        return hashlib.sha256(canonical_json(self.decisive).encode()).hexdigest()[:16]

    @property
    def decisive(self) -> dict[str, Any]:
        """Those values, as plain ones."""
        values = dataclasses.asdict(self)
        for name in ("title", "data_folder", "held_out", "keeping"):
            del values[name]
        values["keeping"] = {"validate_every": self.keeping.validate_every}
        for corpus in values["data"]["corpora"]:
            del corpus["licence"]
        # Where a training stopped, it may go on with more; encoders count by what is in their files.
        del values["optimiser"]["max_skipped"]
        if ei := values["ei"]:
            del ei["deepmoji"], ei["infersent"]
            if ei["emotion_encoder"] == GOEMOTIONS:  # what was meant while there was no choice
                del ei["emotion_encoder"]
        return values

    @property
    def folder(self) -> Path:
        """Where relative paths begin."""
        return Path(self.data_folder).expanduser()

    def corpus_path(self, corpus: CorpusConfig) -> Path:
        """Where a corpus of the user's is."""
        return self.folder / Path(corpus.path).expanduser()


def config_load(path: Path | str, data: Path | str | None = None, base: str = "") -> TrainingConfig:
    """Read a config file and check all of it, the existence of corpora and encoders included.

    Args:
        data: folder of the corpora; the config's own if None.
        base: lay the config over this one (`chatbots.training.bases`); the training's name then says so, so
            that it stands beside the one without.

    Raises:
        ConfigError: naming the file, the key and what is allowed.
    """
    path = Path(path)
    values = yaml_read(path)
    try:
        if isinstance(values, Mapping):
            values = dict(values)
            if own := values.pop("base", ""):
                values = base_applied(values, base_find(str(own), path.parent))
            if base:
                values = base_applied(values, added := base_find(base, Path()))
                values["name"] = f"{values.get('name')}-{added.stem}"
        return config_check(values, path.parent if data is None else data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def config_before(path: Path | str, config: TrainingConfig) -> TrainingConfig | None:
    """The config, in the folder of `path`, of the training whose weights `config` starts from; None if none.

    Raises:
        ConfigError: the one that is there cannot be used.
    """
    if not config.start.weights:
        return None
    for beside in sorted(Path(path).parent.glob("*.yaml")):
        values = yaml_read(beside)
        if isinstance(values, Mapping) and values.get("name") == config.start.weights:
            return config_load(beside, config.data_folder)
    return None


def config_check(values: Mapping[str, Any], data: Path | str = ".") -> TrainingConfig:
    """The same from plain values, for notebooks.

    Raises:
        ConfigError: naming the key and what is allowed.
    """
    if isinstance(values, Mapping) and "data_folder" in values:
        raise ConfigError("data_folder is no key of a file; give the folder beside it (--data)")
    config: TrainingConfig = config_values_read(TrainingConfig, values)
    config = dataclasses.replace(config, data_folder=str(data))
    for i, corpus in enumerate(config.data.corpora):
        if corpus.path != EVERYDAY and not config.corpus_path(corpus).exists():
            raise ConfigError(
                f"data.corpora[{i}].path is {corpus.path!r}, and there is no {config.corpus_path(corpus)}; "
                "give the folder that holds the corpora with --data"
            )
    if config.ei is not None:
        for encoder in config.ei.encoders(config.folder):
            if reason := encoder.unavailable_reason():
                raise ConfigError(f"an encoder of ei cannot be used: {reason}")
    return config
