"""Reply filters by patterns: the study's phrases, and names of models.

The filter of names finds replies that reveal the bot's model: raters who know it judge the name and not the reply.
The filter finds the bot's own id, title and model; names of well-known models; and sentences such as “as an AI
language model made by …” (English ones). Names that are also everyday words or people's names (a parrot, Claude, a
llama) count only if the reply refers to itself (“I am …”, “based on …”) or gives a version (“Llama 3”).
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from chatbots import Identity
from webapp.studies.reply_filters.base import (
    FilterDefaults,
    FilterInput,
    FilterMatch,
    alternatives,
    any_of,
    distinct,
    register_filter,
)
from webapp.studies.settings import StudyValues


@register_filter
class PhrasesFilter:
    """Finds the phrases that the study lists, literally."""

    name = "phrases"
    title = "Your phrases"
    description = "Finds the words and phrases that you list below."

    def identity(self, values: StudyValues) -> Identity:
        """Return its name with a digest of the phrases: versions of the study hold the phrases themselves."""
        said = "\n".join(sorted(values.filtering.filter_phrases))
        digest = hashlib.sha256(said.encode()).hexdigest()[:16]
        return Identity(self.name, "1", {"phrases": digest})

    def unavailable_reason(self, values: StudyValues) -> str | None:
        """Say that no phrase is listed, if none is."""
        if values.filtering.filter_phrases:
            return None
        return "no phrase is listed; write one a line, or switch the filter off"

    def find(self, text: str, asked: FilterInput) -> FilterMatch | None:
        """Return the listed phrases that stand in the reply."""
        pattern = any_of(asked.values.filtering.filter_phrases)
        words = distinct(pattern.findall(text)) if pattern else ()
        return FilterMatch("It says what your list has.", words) if words else None


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
    """Finds replies that name their model."""

    name = "names_model"
    title = "Names its model"
    description = "Finds replies that say which model or company is behind the chatbot."

    def find(self, text: str, asked: FilterInput) -> FilterMatch | None:
        """Return the words by which the reply names its model."""
        words = distinct(" ".join(one.group().split()) for one in _pattern(asked.names).finditer(text))
        return FilterMatch("It says which model gives it.", words) if words else None


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    told = [part for name in names for part in (name, name.rpartition("/")[2]) if len(part) > 2]
    plain = [name for name in told if name.isalpha()]
    telling = [name for name in told if not name.isalpha()]
    everyday = alternatives((*_EVERYDAY, *plain))
    patterns = [
        alternatives((*telling, *_FAMILIES)),
        *_STATEMENTS,
        rf"{_OF_ITSELF}(?:{everyday})(?:{_VERSION})?",
        # With their capitals: a palm in a line of three is no model.
        rf"(?-i:(?:{alternatives(_EVERYDAY)})[\s-]*v?\d[\w.]*)",
        _GPT,
    ]
    return re.compile("|".join(patterns), re.IGNORECASE)
