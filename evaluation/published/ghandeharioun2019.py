"""Tables of Ghandeharioun et al. (2019): twelve bots and their published numbers.

The source is arXiv 1906.09308, first version. A bot is identified by model, corpus and version. The data are Tables 2
(ratings), 3 and 5 (results of the models; Table 3 has the rows `baseline` and `EI` of Table 5) and 8 (ratings per bot);
the paper's figures contain no numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from chatbots.training.config import CONFIGS_FOLDER
from chatbots.validation import yaml_read

NAME = "ghandeharioun2019"
MODELS = ("HRED", "VHRED", "VHCR")
CORPORA = ("Cornell", "Reddit")
VERSIONS = ("baseline", "input only", "EI_emo", "EI_inf", "EI")
DIMENSIONS = ("quality", "fluency", "diversity", "contingency", "empathy")
LEVEL = 0.90
"""Confidence level of the intervals in Table 2."""
_FILE = Path(__file__).parent / f"{NAME}.csv"
_PLAIN = {"plain", "baseline", "base", "no", "none", "false", "0", ""}


@dataclass(frozen=True, slots=True, order=True)
class PaperBot:
    """Bot of the paper."""

    model: str
    corpus: str
    version: str

    def __str__(self) -> str:
        return f"{self.model}, {self.corpus}, {self.version}"


@dataclass(frozen=True, slots=True)
class PublishedValue:
    """Published number, with `half_width` of its interval or None."""

    value: float | None
    half_width: float | None = None


@cache
def published() -> Mapping[tuple[str, PaperBot, str], PublishedValue]:
    """Return all published numbers by table, bot and name.

    Tables are `2`, `5` and `8`.
    """
    with _FILE.open(encoding="utf-8", newline="") as file:
        return {
            (row["table"], PaperBot(row["model"], row["corpus"], row["version"]), row["name"]): PublishedValue(
                float(row["value"]) if row["value"] else None, float(row["half_width"]) if row["half_width"] else None
            )
            for row in csv.DictReader(file)
        }


def paper_bots(versions: tuple[str, ...] = ("baseline", "EI")) -> list[PaperBot]:
    """Return the paper's bots of these versions, in table order."""
    return [PaperBot(m, c, v) for m in MODELS for c in CORPORA for v in versions]


HYPER_PARAMETERS = {
    "batch": ("optimiser", "batch_size"),
    "dropout": ("sizes", "dropout"),
    "decoder": ("sizes", "H_d"),
    "encoder": ("sizes", "H_e"),
    "context": ("sizes", "C"),
    "embedding": ("sizes", "E"),
    "word drop": ("regularisation", "word_drop"),
    "sentence drop": ("regularisation", "sentence_drop"),
    "beam": ("held_out", "beam"),
    "w_emo": ("ei", "w_emo"),
    "e": ("ei", "e"),
    "w_inf": ("ei", "w_inf"),
    "s": ("ei", "s"),
}
"""Columns of Table 9 with their places in the configuration of a training run."""
_DEFAULTS = {"word drop": 0.0, "sentence drop": 0.0}


def hyper_parameters(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the hyper-parameters of Table 9 that a training configuration has.

    Args:
        config: as in `chatbots.training.config`; models without EI have none of its values.
    """
    values: dict[str, float] = dict(_DEFAULTS) if config else {}
    for name, (section, key) in HYPER_PARAMETERS.items():
        value = (config.get(section) or {}).get(key)
        if value is not None:
            values[name] = float(value)
    return values


@cache
def published_hyper_parameters() -> Mapping[PaperBot, Mapping[str, float]]:
    """Return Table 9, from the shipped configurations of the twelve bots."""
    folder = CONFIGS_FOLDER / "table9"
    return {
        bot: hyper_parameters(yaml_read(folder / f"{bot.corpus}-{bot.model}{ending}.yaml".lower()))
        for bot in paper_bots()
        for ending in ["-ei" if bot.version == "EI" else ""]
    }


def matched(bot: str, factors: Mapping[str, Mapping[str, str]]) -> PaperBot | None:
    """Match a study's bot to one of the paper's, or return None.

    It matches factors or words of the bot's id.

    Args:
        factors: `architecture`, `corpus` and `EI`, each by bot.
    """
    words = re.findall(r"[a-z]+", bot.lower())
    known = {name.lower(): levels.get(bot, "").lower() for name, levels in factors.items()}
    model = _one_of(MODELS, known.get("architecture", ""), words)
    corpus = _one_of(CORPORA, known.get("corpus", ""), words)
    if model is None or corpus is None:
        return None
    level = known.get("ei")
    if level is None:
        version = "EI" if "ei" in words else "baseline"
    elif level in _PLAIN:
        version = "baseline"
    else:
        same = {name.lower(): name for name in VERSIONS}
        version = same.get(level, "EI" if level in {"yes", "true", "1"} else "")
    return PaperBot(model, corpus, version) if version else None


def _one_of(names: tuple[str, ...], level: str, words: list[str]) -> str | None:
    matching_names = [name for name in names if name.lower() == level]
    if not matching_names and not level:
        matching_names = [name for name in names if name.lower() in words]
    return matching_names[0] if len(matching_names) == 1 else None
