"""Configuration of a training: a YAML file, validated before any work starts.

    name: hred-small
    model: hred
    sizes: {E: 256, H_e: 256, H_d: 256, C: 256}     # the model's own config, without V
    data:
      corpora: [{path: talk.jsonl.gz}, {path: everyday, repeat: 4}]
    optimiser: {lr: 1e-3, epochs: 5}

Defaults are the paper's (Ghandeharioun et al. 2019; fact sheet sections 6 and 7.1).

A config may inherit values from a base that several configs share:

    base: compat-2019            # in a config; or `train_bot CONFIG --base compat-2019`

A base is written like a config. Under the name of a model it may hold what is meant for that model alone, and
its `ei` holds only where the config has an `ei`: a base does not switch EI on. The config's own values win.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, StringConstraints, ValidationInfo, field_validator

from chatbots.corpora.formats import FORMATS
from chatbots.corpora.vocabulary import RECOMMENDED, TOKENISERS, VocabularySize
from chatbots.encoders.ei_encoders import GOEMOTIONS
from chatbots.identity import canonical_json
from chatbots.models.catalogue import MODELS, config_read
from chatbots.training.ei import EITraining
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Mistake, Number, Share, Size, ValuesError, values_read, yaml_read

CONFIGS_FOLDER = Path(__file__).parent / "configs"
"""Where a base without a folder in its name is looked for, beside the config's own folder."""


def base_find(name: str, config_folder: Path) -> Path:
    """Find the file of a base: by its path, relative to `config_folder`, or by its name among the project's configs.

    Raises:
        ValuesError: there is none; the message names those there are.
    """
    file = Path(name).expanduser()
    file = file if file.suffix else file.with_suffix(".yaml")
    for folder in (config_folder, CONFIGS_FOLDER):
        if (folder / file).is_file():
            return folder / file
    names = ", ".join(sorted(path.stem for path in CONFIGS_FOLDER.glob("*.yaml")))
    raise ValuesError(f"base is {name!r}, and there is no such file in {config_folder}; there is {names}")


def base_applied(values: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Lay the config's values over those of a base.

    Raises:
        ValuesError: the base cannot be read or holds no keys.
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
    """Merge both, mappings key by key; where both have a value, the one above counts."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        are_mappings = isinstance(under, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_values(under, value) if are_mappings else value  # type: ignore[arg-type]
    return merged


EVERYDAY = "everyday"
"""The `path` that stands for the corpus written for this project; it needs no file of the user's."""

WITH_EI = ("hred", "vhred", "vhcr")
WITH_LATENTS = ("vhred", "vhcr")

_FolderName = Annotated[
    str, StringConstraints(pattern=r"^[^./\\\x00][^/\\\x00]*$"), TypeDescription("the plain name of a folder")
]
_Limit = Annotated[int, Field(ge=0)]
_HeldOut = Annotated[Number, Field(gt=0, lt=0.5)]


class CorpusConfig(InputModel):
    """One corpus.

    Attributes:
        path: file or folder, relative to the data folder; "everyday" is the project's own.
        format: how it is written (`chatbots.corpora.formats`).
        repeat: how often its training dialogues are read in an epoch: a small corpus beside a large one.
        licence: of the data, for the model card.
    """

    path: str
    format: Literal[FORMATS] = "jsonl"  # type: ignore[valid-type]
    repeat: Size = 1
    licence: str = ""


class DataConfig(InputModel):
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


class OptimiserConfig(InputModel):
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
    """Settings that keep the model from ignoring its latent variables.

    Attributes:
        kl_batches: the KL term's weight rises linearly from 0 to 1 over so many batches, counted over epochs.
        word_drop: share of the decoder's input words replaced by `<unk>`.
        sentence_drop: share of the utterances hidden from VHCR's context.
    """

    kl_batches: _Limit = 25_000
    word_drop: Share = 0.0
    sentence_drop: Share = 0.0


class StartConfig(InputModel):
    """Initial weights of a training.

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


class HeldOutConfig(InputModel):
    """Settings of the evaluation of the finished model.

    Attributes:
        samples: importance samples behind the perplexity of a model with latent variables.
        max_windows: measure on so many windows of the test text; 0: all.
        max_replies: generate so many first replies for the embedding metrics; 0: all.
        beam: hypotheses of the search for those; 1: greedy.
    """

    samples: Size = 100
    max_windows: _Limit = 0
    max_replies: _Limit = 0
    beam: Size = 1


class KeepingConfig(InputModel):
    """When something is written.

    Attributes:
        log_every: batches between two lines of the log.
        save_every: batches between two states to resume from; each epoch ends with one, too.
        validate_every: batches between two validations; 0: at the end of each epoch.
    """

    log_every: Size = 50
    save_every: Size = 1000
    validate_every: _Limit = 0


class TrainingConfig(InputModel):
    """Everything a training is asked to do. Equal configs on equal data train equal models.

    Attributes:
        name: of the folder it writes.
        model: one of `chatbots.models.catalogue.MODELS`.
        sizes: the model's own config without V and ei, which follow from the data and from `ei`.
        seed: of the first weights, the order of batches, and everything drawn.
        title: a name for people.
    """

    # What a validator below looks at stands before what it checks.
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
            Mistake(key, f"{key} is no key here; it follows from {where}")
            for key, where in (("V", "the vocabulary"), ("ei", "the key ei beside sizes"))
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
            raise ValueError(f"it must be left out: {model} has no context to teach; only {', '.join(WITH_EI)} have")
        return ei

    @field_validator("regularisation")
    @classmethod
    def _sentence_drop_is_known(
        cls, regularisation: RegularisationConfig, info: ValidationInfo
    ) -> RegularisationConfig:
        if regularisation.sentence_drop and info.data.get("model", "vhcr") != "vhcr":
            raise ValueError(f"sentence_drop is {regularisation.sentence_drop}; only vhcr has it")
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
        """16 hexadecimal digits of everything that decides the weights: neither title nor folders."""
        return hashlib.sha256(canonical_json(self.decisive).encode()).hexdigest()[:16]

    @property
    def decisive(self) -> dict[str, Any]:
        """Those values, as plain ones."""
        values = self.model_dump()
        for name in ("title", "held_out", "keeping"):
            del values[name]
        values["keeping"] = {"validate_every": self.keeping.validate_every}
        for corpus in values["data"]["corpora"]:
            del corpus["licence"]
        # A training that stopped at `max_skipped` may go on with a higher one. Encoders are identified by the
        # contents of their files, not by their paths.
        del values["optimiser"]["max_skipped"]
        if ei := values["ei"]:
            del ei["deepmoji"], ei["infersent"]
            if ei["emotion_encoder"] == GOEMOTIONS:  # the only one before there was a choice
                del ei["emotion_encoder"]
        return values

    @property
    def folder(self) -> Path:
        """Base folder of relative paths of corpora and encoders; not part of the file."""
        return self._folder

    def in_folder(self, folder: Path | str) -> TrainingConfig:
        """Return the same config with its relative paths beginning in `folder`."""
        placed = self.model_copy()
        placed._folder = Path(folder).expanduser()
        return placed

    def corpus_path(self, corpus: CorpusConfig) -> Path:
        """Return the path of a corpus of the user's."""
        return self.folder / Path(corpus.path).expanduser()


def config_load(path: Path | str, data: Path | str | None = None, base: str = "") -> TrainingConfig:
    """Read a config file and check all of it, the existence of corpora and encoders included.

    Args:
        data: folder of the corpora; the config's own if None.
        base: lay the config over this one (`chatbots.training.config`); the training's name then says so, so
            that it stands beside the one without.

    Raises:
        ValuesError: with the file and all its mistakes.
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
    """Find, in the folder of `path`, the config of the training whose weights `config` starts from; None if none.

    Raises:
        ValuesError: the one that is there cannot be used.
    """
    if not config.start.weights:
        return None
    for config_file in sorted(Path(path).parent.glob("*.yaml")):
        values = yaml_read(config_file)
        if isinstance(values, Mapping) and values.get("name") == config.start.weights:
            return config_load(config_file, config.folder)
    return None


def corpora_missing(corpora: Sequence[CorpusConfig], folder: Path) -> list[Mistake]:
    """Return a mistake for each corpus of the user's that is not where its path says.

    Args:
        folder: what the paths are relative to.
    """
    return [
        Mistake(
            f"data.corpora[{i}].path",
            f"data.corpora[{i}].path is {corpus.path!r}, and there is no {place}; give the folder that holds the "
            "corpora with --data",
        )
        for i, corpus in enumerate(corpora)
        if corpus.path != EVERYDAY and not (place := folder / Path(corpus.path).expanduser()).exists()
    ]


def config_check(values: Any, data: Path | str = ".") -> TrainingConfig:
    """Return the same from plain values, for notebooks.

    Raises:
        ValuesError: with all mistakes; what is not on this machine is told once everything else is right.
    """
    config = values_read(TrainingConfig, values, subject="the config").in_folder(data)
    missing = corpora_missing(config.data.corpora, config.folder)
    for encoder in config.ei.encoders(config.folder) if config.ei else ():
        if reason := encoder.unavailable_reason():
            missing.append(Mistake("ei", f"an encoder of ei cannot be used: {reason}"))
    if missing:
        raise ValuesError(missing)
    return config
