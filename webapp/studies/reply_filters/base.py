"""Interface of reply filters, their registry, and three filters.

The filters find phrases, names of models, and labels of a classifier. The search for phrases ignores case and spacing,
and matches whole words in scripts with spaces between words.

The model-name filter finds replies that reveal the bot's model, because raters who know it would rate the name instead
of the reply. The filter finds the bot's own id, title and model; names of well-known models; and sentences such as “as
an AI language model made by …” (English ones). Names that are also everyday words or people's names (a parrot, Claude,
a llama) count only if the reply refers to itself (“I am …”, “based on …”) or gives a version (“Llama 3”).

No classifier ships with Confab: good ones have hundreds of megabytes, and a word list would be no substitute. The
loader is that of the metric `toxicity` (`evaluation/metrics/local_models.py`): safetensors only, and no code of the
model.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from django.conf import settings

from chatbots import Identity
from chatbots.registry import C, Registry
from webapp.studies.settings import StudyValues

if TYPE_CHECKING:
    from evaluation.metrics.local_models import LocalClassifier


@dataclass(frozen=True, slots=True)
class FilterInput:
    """Context of a reply that a filter checks.

    Attributes:
        values: values of the study's version, with the settings of the filters.
        names: names of the bot that replied: its id, its title, its model.
    """

    values: StudyValues
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilterMatch:
    """Match that a filter found in a reply.

    Attributes:
        reason: a sentence for staff.
        words: the words in the reply, unchanged; empty if the filter names none.
    """

    reason: str
    words: tuple[str, ...] = ()


class ReplyFilter(Protocol):
    """Filter of replies.

    It runs in a thread, one reply at a time, and stores nothing.
    """

    name: str
    title: str
    description: str

    def identity(self, values: StudyValues) -> Identity:
        """Return the filter's identity with the study's settings.

        Raise its version if results could change.
        """
        ...

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Return the reason why it cannot be used with these settings, or None.

        It must be fast and load nothing.
        """
        ...

    def find(self, text: str, asked: FilterInput) -> FilterMatch | None:
        """Return the match in a reply, or None."""
        ...


class FilterDefaults:
    """Defaults for filters without settings: always available, and identified by their name."""

    name: str
    version = "1"

    def identity(self, values: StudyValues) -> Identity:
        """Return its name and version."""
        return Identity(self.name, self.version)

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Return None: nothing is missing."""
        return None


reply_filters: Registry[ReplyFilter] = Registry("filter of replies", "webapp.studies.reply_filters")


def register_filter(cls: C) -> C:
    """Register one instance of the decorated filter class."""
    reply_filters.register(cls)
    return cls


def distinct(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words in order without duplicates.

    Case is ignored.
    """
    return tuple({word.casefold(): word for word in reversed(list(words))}.values())[::-1]


# Scripts without spaces between words: Thai to Myanmar, Khmer, and everything from the CJK radicals on.
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0010ffff]")


def phrase_pattern(phrase: str) -> str:
    """Return a pattern that finds the phrase as whole words."""
    inner = r"\s+".join(re.escape(word) for word in phrase.split())
    return f"{_edge(phrase[0], '(?<![^', ')')}{inner}{_edge(phrase[-1], '(?![^', ')')}"


def _edge(letter: str, before: str, after: str) -> str:
    r"""Return the pattern at the edge of a phrase.

    It excludes an adjacent letter if words are separated by spaces.
    """
    if not letter.isalnum() or _WITHOUT_BLANKS.match(letter):
        return ""
    return rf"{before}\W_]{after}"


@lru_cache(maxsize=64)
def any_of(phrases: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return a pattern for any of the phrases, longest first.

    None without phrases.
    """
    patterns = alternatives(phrases)
    return re.compile(patterns, re.IGNORECASE) if patterns else None


def alternatives(phrases: Iterable[str]) -> str:
    """Return the phrases' patterns as alternatives, longest first."""
    ordered = sorted(
        {phrase.strip() for phrase in phrases if phrase.strip()}, key=lambda phrase: (-len(phrase), phrase)
    )
    return "|".join(map(phrase_pattern, ordered))


@register_filter
class PhrasesFilter:
    """Filter that finds phrases listed by the study."""

    name = "phrases"
    title = "Your phrases"
    description = "Finds the words and phrases that you list below."

    def identity(self, values: StudyValues) -> Identity:
        """Return its name with a digest of the phrases.

        The study's versions store the phrases themselves.
        """
        phrases = "\n".join(sorted(values.filtering.filter_phrases))
        digest = hashlib.sha256(phrases.encode()).hexdigest()[:16]
        return Identity(self.name, "1", {"phrases": digest})

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Return a reason if no phrase is listed."""
        if values.filtering.filter_phrases:
            return None
        return "no phrase is listed; enter one per line, or switch the filter off"

    def find(self, text: str, asked: FilterInput) -> FilterMatch | None:
        """Return the listed phrases found in the reply."""
        pattern = any_of(asked.values.filtering.filter_phrases)
        words = distinct(pattern.findall(text)) if pattern else ()
        return FilterMatch("It contains a phrase from your list.", words) if words else None


_FAMILIES = (
    "ChatGPT",
    "OpenAI",
    "InstructGPT",
    "DialoGPT",
    "BlenderBot",
    "Anthropic",
    "LaMDA",
    "DeepSeek",
    "Mixtral",
    "Qwen",
    "Vicuna",
    "StableLM",
    "ChatGLM",
    "Hugging Face",
    "HuggingChat",
    "Bing Chat",
    "Microsoft Copilot",
    "Google Gemini",
    "Google Bard",
    "Meta AI",
    "Mistral AI",
    "xAI",
    "Replika",
)
_EVERYDAY = (
    "Claude",
    "Gemini",
    "Gemma",
    "Llama",
    "Alpaca",
    "Falcon",
    "Bard",
    "Bloom",
    "Copilot",
    "Grok",
    "Mistral",
    "Phi",
    "PaLM",
    "Pythia",
    "Nova",
    "Command R",
)
_MAKERS = (
    "OpenAI",
    "Anthropic",
    "Google",
    "DeepMind",
    "Meta",
    "Facebook",
    "Microsoft",
    "Mistral",
    "DeepSeek",
    "Alibaba",
    "Amazon",
    "Apple",
    "Cohere",
    "xAI",
    "Baidu",
)
_OF_ITSELF = (
    r"(?:\bI\s+am|\bI['’]m|\bmy\s+name\s+is|\bcall\s+me|\bI\s+am\s+called|\bnamed|\bbased\s+on|\bpowered\s+by)"
    r"(?:\s+(?:called|named|the|an?|chatbot|bot|model|assistant|version\s+of))*\s+"
)
_VERSION = r"(?:[\s-]*v?\d[\w.]*|-\w+)"
_MODEL = r"(?:AI|artificial\s+intelligence|(?:large\s+|AI\s+)?language)\s+(?:language\s+)?model"
_STATEMENTS = (
    rf"\b(?:as|being|I\s+am|I['’]m)\s+an?\s+{_MODEL}\b",
    rf"\b(?:made|created|developed|trained|built|designed)\s+by\s+(?:{alternatives(_MAKERS)})",
)
_GPT = r"(?<![^\W_])GPT(?:[\s-]*(?:J|Neo|NeoX|\d[\w.]*))*(?![^\W_])"


@register_filter
class ModelNamesFilter(FilterDefaults):
    """Filter that finds replies naming their model."""

    name = "names_model"
    title = "Names its model"
    description = "Finds replies that reveal the chatbot's model or company."

    def find(self, text: str, asked: FilterInput) -> FilterMatch | None:
        """Return the words with which the reply names its model."""
        words = distinct(" ".join(match.group().split()) for match in _pattern(asked.names).finditer(text))
        return FilterMatch("It reveals its model.", words) if words else None


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    parts = [part for name in names for part in (name, name.rpartition("/")[2]) if len(part) > 2]
    plain = [name for name in parts if name.isalpha()]
    telling = [name for name in parts if not name.isalpha()]
    everyday = alternatives((*_EVERYDAY, *plain))
    patterns = [
        alternatives((*telling, *_FAMILIES)),
        *_STATEMENTS,
        rf"{_OF_ITSELF}(?:{everyday})(?:{_VERSION})?",
        # Case matters: “palm” in a poem is not a model.
        rf"(?-i:(?:{alternatives(_EVERYDAY)})[\s-]*v?\d[\w.]*)",
        _GPT,
    ]
    return re.compile("|".join(patterns), re.IGNORECASE)


@register_filter
class ClassifierFilter:
    """Filter that finds replies by the label of a classifier."""

    name = "classifier"
    title = "Classifier"
    description = "Finds replies that a text classifier labels as toxic, or with another label."

    def identity(self, values: StudyValues) -> Identity:
        """Return its name with the classifier's files, label and threshold."""
        known = _classifier_of(values).identity.as_dict() if values.filtering.filter_model else None
        return Identity(self.name, "1", {"classifier": known, "from": values.filtering.filter_from})

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Return a reason if the classifier is not set or cannot be used."""
        if not values.filtering.filter_model.strip():
            return "no classifier is set; enter one, or switch the filter off"
        return _classifier_of(values).unavailable_reason()

    def find(self, text: str, asked: FilterInput) -> FilterMatch | None:
        """Return the label with its probability if it reaches the threshold."""
        filtering = asked.values.filtering
        probability = float(_classifier_of(asked.values).probabilities([text])[0])
        if not probability >= filtering.filter_from:
            return None
        return FilterMatch(f"The classifier gives “{filtering.filter_label}” a probability of {probability:.2f}.")


def _classifier_of(values: StudyValues) -> LocalClassifier:
    filtering = values.filtering
    return _classifier(filtering.filter_model.strip(), filtering.filter_label.strip())


@lru_cache(maxsize=4)
def _classifier(model: str, label: str) -> LocalClassifier:
    """Return the classifier, loaded on first use and kept by this process."""
    from evaluation.metrics.local_models import LocalClassifier

    return LocalClassifier(model, label, settings.CONFAB_DEVICE)
