"""The words a dialogue model knows, by id: built from training text, kept as a text file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chatbots.models.tokens import SPECIAL_TOKENS, UNK
from chatbots.storable import quote

MAX_SIZE = 20_000
MIN_COUNT = 5


class VocabularyError(ValueError):
    """A vocabulary that cannot be; the message names the file, line or word."""


@dataclass(frozen=True)
class Vocabulary:
    """Words by id. The first four are the specials of `chatbots.models.tokens`; there may be no others.

    Attributes:
        words: all words, specials first, none twice, none empty or with a blank in it.
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        _check(self.words, "word")

    @classmethod
    def build(
        cls,
        token_lists: Iterable[Sequence[str]],
        max_size: int = MAX_SIZE,
        min_count: int = MIN_COUNT,
    ) -> Vocabulary:
        """Make a vocabulary of the most frequent words: most frequent first, equally frequent ones by the alphabet.

        Args:
            token_lists: the words of every training utterance, not cut to a length.
            max_size: most words, the four specials included.
            min_count: rarer words are left out.

        Raises:
            VocabularyError: if not a single word is left.
        """
        if max_size <= len(SPECIAL_TOKENS):
            raise VocabularyError(
                f"max_size is {max_size}; it must be {len(SPECIAL_TOKENS) + 1} or more, because the "
                f"{len(SPECIAL_TOKENS)} specials count"
            )
        counts = Counter(token for tokens in token_lists for token in tokens)
        for special in SPECIAL_TOKENS:
            counts.pop(special, None)
        frequent = sorted((-n, word) for word, n in counts.items() if n >= min_count)
        if not frequent:
            raise VocabularyError(
                f"no word occurs {min_count} times or more among the {len(counts)} different words of "
                "the training text; lower min_count or give more text"
            )
        kept = [word for _, word in frequent[: max_size - len(SPECIAL_TOKENS)]]
        return cls((*SPECIAL_TOKENS, *kept))

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """Read what `write` wrote.

        Raises:
            VocabularyError: naming the file, the line and what is wrong with it.
        """
        try:
            text = path.read_bytes().decode("utf-8")
        except OSError as error:
            raise VocabularyError(f"the vocabulary {path} cannot be read: {error}") from error
        except UnicodeDecodeError as error:
            raise VocabularyError(f"the vocabulary {path} is no UTF-8 text: {error}") from error
        words = tuple(text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
        _check(words, f"{path}, line")
        return cls(words)

    def write(self, path: Path) -> None:
        """Write a line for each word, in the order of the ids, in UTF-8."""
        path.write_bytes(self._text.encode())

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """Return the id of each word, that of `<unk>` for words that are not known. No `<eos>` is added."""
        find = self._ids.get
        return [find(token, UNK) for token in tokens]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the word of each id.

        Raises:
            VocabularyError: for an id that is not between 0 and `len(self)` − 1.
        """
        for i in ids:
            if not 0 <= i < len(self.words):
                raise VocabularyError(
                    f"the id {i} stands for no word; ids go from 0 to {len(self.words) - 1}"
                )
        return [self.words[i] for i in ids]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file `write` makes, hexadecimal."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @property
    def _text(self) -> str:
        return "".join(f"{word}\n" for word in self.words)


def _check(words: Sequence[str], where: str) -> None:
    """Refuse what is no vocabulary; `where` comes before the number of the word, counted from 1."""
    first: dict[str, int] = {}
    for number, word in enumerate(words, start=1):
        if number <= len(SPECIAL_TOKENS) and word != SPECIAL_TOKENS[number - 1]:
            raise VocabularyError(
                f"{where} {number} is {quote(word)}; a vocabulary begins with {', '.join(SPECIAL_TOKENS)}"
            )
        if not word or word.split() != [word]:
            raise VocabularyError(
                f"{where} {number} is {quote(word)}; a word is not empty and has no blank"
            )
        if word in first:
            raise VocabularyError(
                f"{where} {number} is {quote(word)} again, as {where} {first[word]}"
            )
        first[word] = number
    if len(words) < len(SPECIAL_TOKENS):
        raise VocabularyError(
            f"{where} {len(words) + 1} is missing; a vocabulary begins with {', '.join(SPECIAL_TOKENS)}"
        )
