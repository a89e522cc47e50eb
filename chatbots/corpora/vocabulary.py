"""Vocabularies of dialogue models, with their tokenisers and special tokens.

Every vocabulary begins with the four special tokens (Park et al. 2018, released code).

`words-1` (recommended) keeps the letters of every script and treats an emoji or emoticon as one word.
`paper-2019` follows Ghandeharioun et al. (2019): any character except ASCII letters, digits and
`, ! ? ' . `` ` becomes a blank, so an emoji or a text in another script disappears. Both are
lower-case and split off clitics ("do n't", "it 's"). A text without words gives an empty list, and no text
gives a special token: a typed "<unk>" is the word "unk".

A name stands for exact behaviour: a change in the output of `tokenise` needs a new name. The way `detokenise` joins
words for display may improve; the version of the bots that use it must then be raised.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import regex
from pydantic import Field

from chatbots.registry import UnknownName
from chatbots.text import nearest_names, quote
from chatbots.type_descriptions import TypeDescription

PAD = 0
"""Padding; its embedding is fixed at zero."""
UNK = 1
"""Stands for words outside the vocabulary."""
SOS = 2
"""The decoder's first input; never part of an input utterance."""
EOS = 3
"""Ends every utterance and counts towards its length."""

SPECIAL_TOKENS = ("<pad>", "<unk>", "<sos>", "<eos>")
"""Texts of the special tokens, in the order of their ids."""

VocabularySize = Annotated[
    int,
    Field(ge=len(SPECIAL_TOKENS) + 1),
    TypeDescription("a whole number of at least 5: the 4 special tokens and a word"),
]
"""Size of a vocabulary, including special tokens."""


UNKNOWN_SHOWN = "<unknown>"
"""Text shown for `<unk>` in a reply (as in the released code)."""

_CLITIC = r"(?:n't|'(?:s|ve|re|d|ll|m))(?!\w)"
_CLITICS = frozenset(("n't", "'s", "'ve", "'re", "'d", "'ll", "'m"))


@dataclass(frozen=True)
class Tokeniser:
    """Tokeniser with its inverse, under a name that manifests store.

    Attributes:
        name: as stored in manifests; it stands for exact behaviour.
        tokenise: text to words.
        detokenise: words to readable text. Further words change only the last word, so the text of a
            growing reply can be shown through `chatbots.generation.streamed_text.GrowingText`.
    """

    name: str
    tokenise: Callable[[str], list[str]]
    detokenise: Callable[[Sequence[str]], str]


# --- paper-2019 -------------------------------------------------------------------------------------------

_PAPER_BLANKED = re.compile(r"[^A-Za-z0-9,!?'`.]")
_PAPER_SET_OFF = re.compile(r"(n't|'s|'ve|'re|'d|'ll)")
# Then apply the rules of spaCy's English tokeniser to such text: split off sentence-final periods, quotes, "'m" and a
# few contractions; keep periods inside words and numbers and in some abbreviations.
_PAPER_WORD = re.compile(
    rf"""\.{{2,}}
    | {_CLITIC}
    | (?:a\.m|p\.m|e\.g|i\.e|vs)\.(?![a-z0-9])
    | can(?=not\b) | gon(?=na\b) | got(?=ta\b)
    | [a-z0-9]+ (?: \.[a-z0-9]+ | '(?!m\b)[a-z0-9]+ )*
    | [,.!?'`]""",
    re.VERBOSE,
)


def _paper_tokenise(text: str) -> list[str]:
    text = _PAPER_BLANKED.sub(" ", text).lower()
    return _PAPER_WORD.findall(_PAPER_SET_OFF.sub(r" \1", text))


def _paper_detokenise(tokens: Sequence[str]) -> str:
    words: list[str] = []
    for token in _displayed_words(tokens):
        if not words:
            words.append(token)
        elif token in ("t", "s"):  # originally "'t" and "'s"
            words[-1] += f"'{token}"
        elif token in _CLITICS or token in ("na", "ta") or token[0] in ",.?!":
            words[-1] += token
        else:
            words.append(token)
    return " ".join(words)


# --- words-1 ----------------------------------------------------------------------------------------------

# Remove direction marks, soft hyphens, byte-order marks, and variation selectors, which would split an emoji into two
# words.
_INVISIBLE = regex.compile(r"[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufe0e\ufe0f]")
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ`´", "'"))
# In scripts without spaces, each character with its combining marks is a word.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\u30fc\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_PICTURE = r"\p{Extended_Pictographic}\p{Emoji_Modifier}?"
_ENDS_SENTENCE = frozenset(".!?؟。।")
_JOINS_LEFT = frozenset((*",.!?;:%؟،؛。、।", "...", *_CLITICS))


def _word_pattern(letter: str, digit: str, run: str, sign: str) -> str:
    """Build the pattern of a word from those of its parts.

    Args:
        letter, digit, run, sign: patterns of a letter, a digit, a run of both, and a single sign.
    """
    return rf"""
      (?<!\w)[:;][\-']?[()dp](?!\w) | <3(?!\w)          # an emoticon
    | \.\.\.
    | {_CLITIC}
    | (?:mrs?|ms|dr|prof|vs)\.
    | (?:{letter}\.){{2,}}(?!\w)                         # u.s.
    | {digit}+(?:[.,:]{digit}+)+                         # 1,000.5 or 7:30
    | {run}(?:'(?!(?:s|ve|re|d|ll|m)(?!\w)){run})*       # o'clock
    | {sign}"""


_NEGATION = regex.compile(r"(?<=\w)n't(?!\w)")
_ELLIPSIS = regex.compile(r"\.{2,}")
_ASCII_WORD = re.compile(_word_pattern("[a-z]", "[0-9]", "[a-z0-9]+", "[,.!?;:%&$]"), re.VERBOSE | re.ASCII)
"""Equivalent to `_WORD` on ASCII text, in half the time."""
_LETTER = rf"[[\p{{L}}\p{{N}}]--[{_UNSPACED}]]"
_WORD = regex.compile(
    rf"""(?V1)
      \p{{Regional_Indicator}}{{2}}                       # a flag
    | {_PICTURE}(?:\u200d{_PICTURE})*[\U000e0020-\U000e007f]*
    | [{_UNSPACED}]\p{{M}}*
    | """
    # The joiners occur in Persian and Indic scripts.
    + _word_pattern(r"\p{L}", r"\p{N}", rf"{_LETTER}(?:{_LETTER}|[\p{{M}}\u200c\u200d])*", r"[,.!?;:%&؟،؛。、।\p{Sc}]"),
    regex.VERBOSE,
)
_IS_UNSPACED = regex.compile(rf"[{_UNSPACED}。、]")
_IS_CURRENCY = regex.compile(r"\p{Sc}")


def tokenise(text: str) -> list[str]:
    """Split a text into words by the rules `words-1`.

    Without words the list is empty.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text).translate(_APOSTROPHES))
    text = text.replace("`", "'").lower()
    text = _ELLIPSIS.sub(" ... ", _NEGATION.sub(" n't", text))
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def detokenise(tokens: Sequence[str]) -> str:
    """Join words of `words-1` into text with English punctuation and capitals."""
    text, previous = "", ""
    for word in _displayed_words(tokens):
        if _is_range(previous, word):
            text += "-"
        elif previous and not _joined(previous, word):
            text += " "
        begins = not previous or previous in _ENDS_SENTENCE
        text += word[:1].upper() + word[1:] if begins or word == "i" else word
        previous = word
    return text


def _joined(first: str, second: str) -> bool:
    """Return True if two words are written without a space between them."""
    if second in _JOINS_LEFT or _IS_CURRENCY.fullmatch(first):
        return True
    return bool(_IS_UNSPACED.match(first) and _IS_UNSPACED.match(second))


def _is_range(first: str, second: str) -> bool:
    """Return True if two numbers came from one hyphenated expression, as "222-0".

    The tokeniser drops the hyphen. A number includes its points and commas, so something must have separated the two.
    In the corpora of the demo models it is a hyphen in nine of ten cases, and in most others a space before "000".
    """
    return first.isdecimal() and second.isdecimal() and second != "000"


def _displayed_words(tokens: Sequence[str]) -> Iterable[str]:
    """Yield the words to display: no special tokens, placeholders for `<unk>`."""
    for token in tokens:
        if token == SPECIAL_TOKENS[UNK]:
            yield UNKNOWN_SHOWN
        elif token and token not in SPECIAL_TOKENS:
            yield token


# --- by name ----------------------------------------------------------------------------------------------

RECOMMENDED = "words-1"
TOKENISERS: dict[str, Tokeniser] = {
    t.name: t
    for t in (Tokeniser(RECOMMENDED, tokenise, detokenise), Tokeniser("paper-2019", _paper_tokenise, _paper_detokenise))
}


def tokeniser_get(name: str = RECOMMENDED) -> Tokeniser:
    """Return the tokeniser called `name`.

    Raises:
        UnknownName: there is no such tokeniser; the message lists the existing ones.
    """
    if name not in TOKENISERS:
        near = nearest_names(name, list(TOKENISERS), limit=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UnknownName(f"there is no tokeniser {quote(name)}{hint} (available: {', '.join(TOKENISERS)})")
    return TOKENISERS[name]


MAX_SIZE = 20_000
MIN_COUNT = 5


class VocabularyError(ValueError):
    """Error in a vocabulary; the message names the file, line or word."""


@dataclass(frozen=True)
class Vocabulary:
    """Words by id, of which the first four are special tokens.

    Attributes:
        words: all words, special tokens first; no duplicates, empty words or spaces inside words.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        _check(self.words, "word")

    @classmethod
    def build(
        cls, token_lists: Iterable[Sequence[str]], max_size: int = MAX_SIZE, min_count: int = MIN_COUNT
    ) -> Vocabulary:
        """Build a vocabulary by descending frequency; ties are in alphabetical order.

        Args:
            token_lists: the words of every training utterance, not truncated.
            max_size: maximum number of words, including the four special tokens.
            min_count: minimum frequency of a word.

        Raises:
            VocabularyError: no word is left.
        """
        if max_size <= len(SPECIAL_TOKENS):
            raise VocabularyError(
                f"max_size is {max_size}; it must be at least {len(SPECIAL_TOKENS) + 1}, because the "
                f"{len(SPECIAL_TOKENS)} special tokens count"
            )
        counts = Counter(token for tokens in token_lists for token in tokens)
        for special in SPECIAL_TOKENS:
            counts.pop(special, None)
        frequent = sorted((-n, word) for word, n in counts.items() if n >= min_count)
        if not frequent:
            raise VocabularyError(
                f"no word occurs at least {min_count} times among the {len(counts)} distinct words of "
                "the training text; lower min_count or use more text"
            )
        words = [word for _, word in frequent[: max_size - len(SPECIAL_TOKENS)]]
        return cls((*SPECIAL_TOKENS, *words))

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """Read a file made by `write`.

        Raises:
            VocabularyError: the file is invalid; the message gives file, line and problem.
        """
        try:
            text = path.read_bytes().decode("utf-8")
        except OSError as error:
            raise VocabularyError(f"the vocabulary {path} cannot be read: {error}") from error
        except UnicodeDecodeError as error:
            raise VocabularyError(f"the vocabulary {path} is not UTF-8 text: {error}") from error
        words = tuple(text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
        _check(words, f"{path}, line")
        return cls(words)

    def write(self, path: Path) -> None:
        """Write one word per line in UTF-8, in id order."""
        path.write_bytes(self._text.encode())

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the id of each word, that of `<unk>` for unknown words.

        No `<eos>` is added.
        """
        find = self._ids.get
        return [find(token, UNK) for token in tokens]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Convert ids to words.

        Raises:
            VocabularyError: for an id that is not between 0 and `len(self)` − 1.
        """
        for i in ids:
            if not 0 <= i < len(self.words):
                raise VocabularyError(f"the id {i} has no word; ids range from 0 to {len(self.words) - 1}")
        return [self.words[i] for i in ids]

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of the file that `write` makes."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @property
    def _text(self) -> str:
        return "".join(f"{word}\n" for word in self.words)


def _check(words: Sequence[str], location: str) -> None:
    """Validate the words.

    Messages name `location` and the word's number, counted from 1.
    """
    first: dict[str, int] = {}
    for number, word in enumerate(words, start=1):
        if number <= len(SPECIAL_TOKENS) and word != SPECIAL_TOKENS[number - 1]:
            raise VocabularyError(
                f"{location} {number} is {quote(word)}; a vocabulary begins with {', '.join(SPECIAL_TOKENS)}"
            )
        if not word or word.split() != [word]:
            raise VocabularyError(
                f"{location} {number} is {quote(word)}; a word must not be empty or contain white space"
            )
        if word in first:
            raise VocabularyError(f"{location} {number} is {quote(word)} again, like {location} {first[word]}")
        first[word] = number
    if len(words) < len(SPECIAL_TOKENS):
        raise VocabularyError(
            f"{location} {len(words) + 1} is missing; a vocabulary begins with {', '.join(SPECIAL_TOKENS)}"
        )
