"""Configuration of training runs, read from YAML and validated before any work.

    name: hred-small
    model: hred
    sizes: {E: 256, H_e: 256, H_d: 256, C: 256}     # the model's own config, without V
    data:
      corpora: [{path: talk.jsonl.gz}, {path: everyday, repeat: 4}]
    optimiser: {lr: 1e-3, epochs: 5}

Defaults are the paper's (Ghandeharioun et al. 2019; fact sheet sections 6 and 7.1).

A config may inherit values from a base that several configs share:

    base: compat-2019            # in a config; or `train_bot CONFIG --base compat-2019`

A base has the format of a config. Values under a model's name apply only to that model, and its `ei` applies only if
the config has an `ei`, so a base does not switch EI on. The config's own values take precedence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, StringConstraints, ValidationInfo, field_validator

from chatbots.corpora.reading import FORMATS
from chatbots.corpora.vocabulary import RECOMMENDED, TOKENISERS, VocabularySize
from chatbots.encoders.ei_encoders import GOEMOTIONS
from chatbots.identity import canonical_json
from chatbots.models.catalogue import MODELS, config_read
from chatbots.training.ei import EITraining
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Mistake, Number, Share, Size, ValuesError, values_read, yaml_read

CONFIGS_FOLDER = Path(__file__).parent / "configs"
"""Where bases without a folder in their name are searched, besides the config's folder."""


def base_find(name: str, config_folder: Path) -> Path:
    """Find the file of a base by relative path or name.

    Raises:
        ValuesError: there is no such base; the message lists the existing ones.
    """
    file = Path(name).expanduser()
    file = file if file.suffix else file.with_suffix(".yaml")
    for folder in (config_folder, CONFIGS_FOLDER):
        if (folder / file).is_file():
            return folder / file
    names = ", ".join(sorted(path.stem for path in CONFIGS_FOLDER.glob("*.yaml")))
    raise ValuesError(f"base is {name!r}, but there is no such file in {config_folder}; available bases: {names}")


def base_applied(values: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Merge the config's values over those of a base.

    Raises:
        ValuesError: the base cannot be read or has no keys.
    """
    base_values = yaml_read(base)
    if not isinstance(base_values, Mapping):
        raise ValuesError(f"{base} is {base_values!r}; it must be a mapping")
    shared = {key: value for key, value in base_values.items() if key not in MODELS}
    model_values = base_values.get(str(values.get("model"))) or {}
    merged = merge_values(shared, model_values)
    if values.get("ei") is None:
        merged.pop("ei", None)
    return merge_values(merged, values)


def merge_values(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; values of `above` take precedence."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        are_mappings = isinstance(under, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_values(under, value) if are_mappings else value  # type: ignore[arg-type]
    return merged


EVERYDAY = "everyday"
"""`path` of the shipped corpus, which needs no file."""

WITH_EI = ("hred", "vhred", "vhcr")
WITH_LATENTS = ("vhred", "vhcr")

_FolderName = Annotated[
    str, StringConstraints(pattern=r"^[^./\\\x00][^/\\\x00]*$"), TypeDescription("the plain name of a folder")
]
_Limit = Annotated[int, Field(ge=0)]
_HeldOut = Annotated[Number, Field(gt=0, lt=0.5)]


class CorpusConfig(InputModel):
    """Corpus of a training run.

    Attributes:
        path: file or folder, relative to the data folder; "everyday" is the shipped corpus.
        format: file format (`chatbots.corpora.formats`).
        repeat: repetitions of its training dialogues per epoch, to balance a small corpus with a large one.
        licence: licence of the data, for the model card.
    """

    path: str
    format: Literal[FORMATS] = "jsonl"  # type: ignore[valid-type]
    repeat: Size = 1
    licence: str = ""


class DataConfig(InputModel):
    """Data settings, from corpora to batches.

    Attributes:
        corpora: at least one.
        tokeniser: name of the tokeniser.
        max_words: maximum size of the vocabulary, including the four special tokens.
        min_count: minimum frequency of a known word in the training text.
        n_utterances: maximum utterances of a window.
        windows: "first" uses the first `n_utterances` of each dialogue, as in the paper; "slide" uses all of them, in
            windows that predict each reply once.
        max_tokens: maximum length of an utterance, including `<eos>`.
        whole_sentences: cut a longer utterance after the last sentence that fits, not within a sentence.
        validation, test: share of each corpus's dialogues that is held out.
        split_seed: seed of the split.
        share: share of each corpus's training dialogues that is used, drawn by the run's seed; with the same seed, a
            smaller share is part of each larger one.
    """

    corpora: Annotated[Many[CorpusConfig], Field(min_length=1)]
    tokeniser: Literal[tuple(TOKENISERS)] = RECOMMENDED  # type: ignore[valid-type]
    max_words: VocabularySize = 20_000
    min_count: Size = 5
    n_utterances: int = Field(10, ge=2)
    windows: Literal["first", "slide"] = "first"
    max_tokens: int = Field(30, ge=2)
    whole_sentences: bool = False
    validation: _HeldOut = 0.1
    test: _HeldOut = 0.1
    split_seed: int = 0
    share: Number = Field(default=1.0, gt=0, le=1)


class OptimiserConfig(InputModel):
    """Settings of the optimiser (Adam) and of the length of training.

    Attributes:
        batch_size: number of windows.
        lr: learning rate.
        schedule: "constant", or "linear" for a decay to 0 over all planned batches.
        warmup: number of batches over which the learning rate first rises to `lr`.
        clip: maximum norm of the gradient.
        epochs: maximum number of epochs.
        max_batches: maximum number of batches; 0 for no limit except `epochs`.
        patience: stop after this many validations without improvement; 0 for never.
        precision: "bfloat16" computes matrix products in half the width; "auto" does so on a GPU.
        max_skipped: maximum number of batches skipped for a non-finite gradient before training stops.
    """

    batch_size: Size = 64
    lr: Number = Field(default=1e-4, gt=0)
    schedule: Literal["constant", "linear"] = "constant"
    warmup: _Limit = 0
    clip: Number = Field(default=1.0, gt=0)
    epochs: Size = 30
    max_batches: _Limit = 0
    patience: _Limit = 3
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    max_skipped: _Limit = 10


class RegularisationConfig(InputModel):
    """Settings that prevent the model from ignoring its latent variables.

    Attributes:
        kl_batches: number of batches, over all epochs, in which the KL term's weight rises linearly from 0 to 1.
        word_drop: share of the decoder's input words replaced by `<unk>`.
        sentence_drop: share of the utterances hidden from VHCR's context.
    """

    kl_batches: _Limit = 25_000
    word_drop: Share = 0.0
    sentence_drop: Share = 0.0


class StartConfig(InputModel):
    """Settings of the initial weights.

    Attributes:
        weights: name of a finished training run in the same output folder, with the same vocabulary, whose weights are
            copied; a larger matrix copies them into its first rows and columns. Empty for none.
        word_vectors: initialise the embedding with the sentence encoder's static word vectors.
        word_counts: initialise the output bias with the log frequencies of words in the training text.
        listening: initialise the context and the decoder so that they respond to the latest utterance at once, for runs
            of thousands of batches. The paper's models start by keeping their state and need tens of thousands of
            batches to use the input.
    """

    weights: str = ""
    word_vectors: bool = False
    word_counts: bool = False
    listening: bool = False


class HeldOutConfig(InputModel):
    """Settings of the evaluation of the finished model.

    Attributes:
        samples: number of importance samples for the perplexity of a model with latent variables.
        max_windows: number of test windows to use; 0 for all.
        max_replies: number of first replies to generate for the embedding metrics; 0 for all.
        beam: beam width for these replies; 1 is greedy.
    """

    samples: Size = 100
    max_windows: _Limit = 0
    max_replies: _Limit = 0
    beam: Size = 1


class KeepingConfig(InputModel):
    """Intervals of logging, saving and validation.

    Attributes:
        log_every: batches between two log lines.
        save_every: batches between two saved states; one is also saved at the end of each epoch.
        validate_every: batches between two validations; 0 for one at the end of each epoch.
    """

    log_every: Size = 50
    save_every: Size = 1000
    validate_every: _Limit = 0


class TrainingConfig(InputModel):
    """Complete configuration of a training run.

    Equal configs on equal data train equal models.

    Attributes:
        name: name of the output folder.
        model: one of `chatbots.models.catalogue.MODELS`.
        sizes: the model's config without V and ei, which follow from the data and from `ei`.
        seed: seed of the initial weights, the order of batches and all sampling.
        title: display name.
    """

    # Validators below read earlier fields, so the order of the fields matters.
    name: _FolderName
    model: Literal[tuple(MODELS)]  # type: ignore[valid-type]
    data: DataConfig
    sizes: dict[str, Any] = Field(default_factory=dict, validate_default=True)
    ei: EITraining | None = None
    optimiser: OptimiserConfig = OptimiserConfig()
    regularisation: RegularisationConfig = RegularisationConfig()
    start: StartConfig = StartConfig()
    held_out: HeldOutConfig = HeldOutConfig()
    keeping: KeepingConfig = KeepingConfig()
    seed: int = Field(0, ge=0, le=2**63 - 1)
    title: str = ""
    _folder: Path = PrivateAttr(Path())

    @field_validator("sizes")
    @classmethod
    def _sizes_fit_the_model(cls, sizes: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        mistakes = [
            Mistake(key, f"{key} is an unknown key; it follows from {where}")
            for key, where in (("V", "the vocabulary"), ("ei", "the key ei next to sizes"))
            if key in sizes
        ]
        model_sizes = {key: value for key, value in sizes.items() if key not in ("V", "ei")}
        if "model" in info.data:
            max_words = info.data["data"].max_words if "data" in info.data else 5
            try:
                config_read(info.data["model"], {"V": max_words, **model_sizes})
            except ValuesError as error:
                mistakes += error.mistakes
        if mistakes:
            raise ValuesError(mistakes)
        return sizes

    @field_validator("ei")
    @classmethod
    def _ei_has_a_context(cls, ei: EITraining | None, info: ValidationInfo) -> EITraining | None:
        model = info.data.get("model", WITH_EI[0])
        if ei is not None and model not in WITH_EI:
            raise ValueError(f"remove it: {model} has no context RNN to regularise; only {', '.join(WITH_EI)} have one")
        return ei

    @field_validator("regularisation")
    @classmethod
    def _sentence_drop_is_known(
        cls, regularisation: RegularisationConfig, info: ValidationInfo
    ) -> RegularisationConfig:
        if regularisation.sentence_drop and info.data.get("model", "vhcr") != "vhcr":
            raise ValueError(f"sentence_drop is {regularisation.sentence_drop}; only vhcr supports it")
        return regularisation

    @field_validator("start")
    @classmethod
    def _word_vectors_fit(cls, start: StartConfig, info: ValidationInfo) -> StartConfig:
        size = info.data.get("sizes", {}).get("E")
        if start.word_vectors and not start.weights and size is not None:
            from chatbots.encoders.word_vectors import WORD_DIMENSION

            if size != WORD_DIMENSION:
                raise ValueError(
                    f"word_vectors needs sizes.E of {WORD_DIMENSION}, the width of the static word vectors; "
                    f"it is {size}"
                )
        return start

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all values that affect the weights."""
        return hashlib.sha256(canonical_json(self.decisive).encode()).hexdigest()[:16]

    @property
    def decisive(self) -> dict[str, Any]:
        """The values that affect the weights, as plain values."""
        values = self.model_dump()
        for name in ("title", "held_out", "keeping"):
            del values[name]
        values["keeping"] = {"validate_every": self.keeping.validate_every}
        if self.data.share == 1:  # the only value before the option existed
            del values["data"]["share"]
        for corpus in values["data"]["corpora"]:
            del corpus["licence"]
        # A run that stopped at `max_skipped` may be resumed with a higher value. Encoders are identified by file
        # contents, not by paths.
        del values["optimiser"]["max_skipped"]
        if ei := values["ei"]:
            del ei["deepmoji"], ei["infersent"]
            if ei["emotion_encoder"] == GOEMOTIONS:  # the only value before the option existed
                del ei["emotion_encoder"]
        return values

    @property
    def folder(self) -> Path:
        """Base folder of relative corpus and encoder paths.

        Not part of the file.
        """
        return self._folder

    def in_folder(self, folder: Path | str) -> TrainingConfig:
        """Return a copy whose relative paths start in `folder`."""
        placed = self.model_copy()
        placed._folder = Path(folder).expanduser()
        return placed

    def corpus_path(self, corpus: CorpusConfig) -> Path:
        """Return the path of a user's corpus."""
        return self.folder / Path(corpus.path).expanduser()


def config_load(path: Path | str, data: Path | str | None = None, base: str = "") -> TrainingConfig:
    """Read and validate a config file.

    Corpora and encoders must exist.

    Args:
        data: folder of the corpora; None for the config's folder.
        base: base config to merge with; the run's name then includes it, so that the run has its own folder.

    Raises:
        ValuesError: the config is invalid; lists all mistakes.
    """
    path = Path(path)
    values = yaml_read(path)
    try:
        if isinstance(values, Mapping):
            values = dict(values)
            if own_base := values.pop("base", ""):
                values = base_applied(values, base_find(str(own_base), path.parent))
            if base:
                values = base_applied(values, added := base_find(base, Path()))
                values["name"] = f"{values.get('name')}-{added.stem}"
        return config_check(values, path.parent if data is None else data)
    except ValuesError as error:
        raise ValuesError(error.mistakes, path) from None


def config_before(path: Path | str, config: TrainingConfig) -> TrainingConfig | None:
    """Find the config of the run whose weights `config` copies.

    It is next to `path`.

    Raises:
        ValuesError: that config is invalid.
    """
    if not config.start.weights:
        return None
    for config_file in sorted(Path(path).parent.glob("*.yaml")):
        values = yaml_read(config_file)
        if isinstance(values, Mapping) and values.get("name") == config.start.weights:
            return config_load(config_file, config.folder)
    return None


def corpora_missing(corpora: Sequence[CorpusConfig], folder: Path) -> list[Mistake]:
    """Return a mistake for each missing corpus.

    Args:
        folder: base of relative paths.
    """
    return [
        Mistake(
            f"data.corpora[{i}].path",
            f"data.corpora[{i}].path is {corpus.path!r}, but there is no {place}; give the folder of the corpora with "
            "--data",
        )
        for i, corpus in enumerate(corpora)
        if corpus.path != EVERYDAY and not (place := folder / Path(corpus.path).expanduser()).exists()
    ]


def config_check(values: Any, data: Path | str = ".") -> TrainingConfig:
    """Validate a config given as plain values, for notebooks.

    Raises:
        ValuesError: lists all mistakes; missing files are reported only once everything else is valid.
    """
    config = values_read(TrainingConfig, values, subject="the config").in_folder(data)
    missing = corpora_missing(config.data.corpora, config.folder)
    for encoder in config.ei.encoders(config.folder) if config.ei else ():
        if reason := encoder.unavailable_reason():
            missing.append(Mistake("ei", f"an encoder of ei cannot be used: {reason}"))
    if missing:
        raise ValuesError(missing)
    return config
