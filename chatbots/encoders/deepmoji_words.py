"""DeepMoji's way from a text to word ids, as torchMoji does it on Python 3.

Fact sheet section 1.1; Felbo et al. (2017) and Hugging Face's port torchMoji (MIT), whose behaviour this
follows in code of our own. What follows from running the port on Python 3, and is kept because the published
figures were made so:

- elongated words ("soooo") are not shortened, because a test for ASCII always fails;
- its pattern for emoji matches none of the pairs it was written for; an emoji is one token all the same,
  since any character that nothing else takes is a token of its own;
- an e-mail address becomes the token of mentions, because "@" and a word stand in it.

One deviation: the port asks the package text-unidecode what a sign looks like in ASCII; a table of our own
holds the punctuation people type (quotes, dashes, opening marks). Rarer signs stay as they are, and are
unknown to the published vocabulary, which is ASCII throughout.
"""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from chatbots.archives import DAMAGE
from chatbots.encoders.sentence import EncoderError

MASK, UNKNOWN, MENTION, URL, NUMBER, BREAK = (
    "CUSTOM_MASK",
    "CUSTOM_UNKNOWN",
    "CUSTOM_AT",
    "CUSTOM_URL",
    "CUSTOM_NUMBER",
    "CUSTOM_BREAK",
)
SPECIAL = (MASK, UNKNOWN, MENTION, URL, NUMBER, BREAK, *(f"CUSTOM_BLANK_{i}" for i in range(6, 10)))
"""The first ten words of every vocabulary, in order."""
MAX_WORDS = 30

_BREAKS = ("\\\\n", "\\n", "\n", "\\\\r", "\\r", "\r", "<br>")
"""What counts as a line break; written-out ones too, as data sets of tweets have them."""
_VARIATION_SELECTORS = dict.fromkeys(range(0xFE00, 0xFE10))
_PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("‘’‛′ʼʹˈ", "'"),
        **dict.fromkeys("“”‟", '"'),
        **dict.fromkeys("‐‒–−", "-"),
        **dict.fromkeys("—―", "--"),
        **dict.fromkeys("‚،", ","),
        **dict.fromkeys("¿؟", "?"),
        "„": ",,",
        "‹": "<",
        "›": ">",
        "«": "<<",
        "»": ">>",
        "¡": "!",
        "؛": ";",
    }
)
"""Comes after NFKC, which has already made "..." of "…" and ASCII of full-width signs."""

_MENTION = r"@[a-zA-Z0-9_]+"
_URL = (
    r"(?:https?://|www\.)"
    r"(?:[a-zA-Z]|[0-9]|[$-_@.&+]|[!*\(\),]|(?:%[0-9a-fA-F][0-9a-fA-F]))+"
)


def _emoticons() -> str:
    """Return the pattern of an emoticon: eyes, perhaps a nose, a mouth or a row of it; or one of nine others."""
    faces = ["-_-", "x_x", "^_^", "o.o", "o_o", "(:", "):", ");", "(;"]
    eyes = "|".join(map(re.escape, (">:", ":", "=", ";")))
    mouths = "|".join(f"{re.escape(mouth)}+" for mouth in "DdpPv)oO(3/|\\")
    return "|".join(map(re.escape, faces)) + rf"|(?:{eyes})[-,^'\"]?(?:{mouths})"


_RUNS = "|".join(f"{re.escape(sign)}+" for sign in "()<!?.,/'\"-_=\\§|´ˇ°[]>{}~$^&*;:%+€`")
_KINDS = (  # the most specific first
    _URL,
    r"\b[a-zA-Z0-9_.+-]+@[a-zA-Z0-9-]+\.[a-zA-Z0-9-.]+\b",  # e-mail addresses
    r"[a-zA-Z]+[-_][a-zA-Z]+",  # red-haired, CUSTOM_BREAK
    r"#[a-zA-Z0-9_]+",
    _MENTION,
    r"(?:<+/?3+)+",  # hearts, broken ones too
    _emoticons(),
    r"[a-zA-Z]+'[a-zA-Z]+",
    r"mr\.|ms\.|mrs\.|dr\.|prof\.",
    r"\b(?<!\.)(?:[A-Za-z]\.){2,}",  # abbreviations
    r"[0-9]+",
    r"[a-zA-Z]+",
    _RUNS,
    # "##name" is "#" and "#name".
    r"#+(?=#[a-zA-Z0-9_]+)|@+(?=@[a-zA-Z0-9_]+)|#+|@+",
    r".",
)
# Case makes no difference, for the port's titles switch it off in the whole pattern.
_TOKEN = re.compile(rf"\s+|({'|'.join(_KINDS)})", re.IGNORECASE)
_HAS_MENTION, _HAS_URL = re.compile(_MENTION), re.compile(_URL)


class VocabularyError(EncoderError, ValueError):
    """A vocabulary that cannot be DeepMoji's; the message says why."""


def deepmoji_words(text: str) -> list[str]:
    """Split a text into DeepMoji's words, in lower case; a text of white space alone has none.

    Numbers, mentions, links and line breaks each become a special word.
    """
    text = text.strip().lower()
    for sign in _BREAKS:
        text = text.replace(sign, f" {BREAK} ")
    text = text.translate(_VARIATION_SELECTORS)
    parts = (unicodedata.normalize("NFKC", part).translate(_PUNCTUATION) for part in text.split())
    found = _TOKEN.findall(" ".join(parts))
    return [_special(token) for token in found if token.strip()]


def _special(token: str) -> str:
    try:
        int(token)
    except ValueError:
        if _HAS_MENTION.search(token):
            return MENTION
        return URL if _HAS_URL.search(token) else token
    return NUMBER


def word_ids(text: str, vocabulary: Mapping[str, int], max_words: int = MAX_WORDS) -> list[int]:
    """Return the ids of a text's first words, at most `max_words`; words that are not known have id 1."""
    return [vocabulary.get(word, 1) for word in deepmoji_words(text)[:max_words]]


def vocabulary_read(path: Path | str) -> dict[str, int]:
    """Read torchMoji's `vocabulary.json`, plain or gzip: word to id, the ten special words first.

    Raises:
        VocabularyError: if it is no such file.
    """
    path = Path(path)
    data = path.read_bytes()
    try:
        found = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except DAMAGE as error:
        raise VocabularyError(f"{path} is no JSON vocabulary: {error}") from error
    if not isinstance(found, dict) or sorted(found.values()) != list(range(len(found))):
        raise VocabularyError(
            f"{path} does not give each word an id of its own, from 0 without gaps"
        )
    first = sorted(found, key=found.__getitem__)[: len(SPECIAL)]
    if first[:6] != list(SPECIAL[:6]):
        raise VocabularyError(
            f"{path} begins with {', '.join(map(str, first[:6]))}; DeepMoji's begins with "
            f"{', '.join(SPECIAL[:6])}"
        )
    return {str(word): int(number) for word, number in found.items()}
