"""Keyword extraction of GRADE (Huang et al. 2020; fact sheet section 3).

A token's score is its tag's weight × frequency of its lemma in the utterance / number of tokens × the lemma's idf.
Lemmas above 0.15 are keywords, in order, with repeats. If NLTK's data are installed, NLTK provides tokens, tags and
lemmas (`nltk`, as published). Otherwise (`textblob`) they come from NLTK's tokenizer applied to single sentences,
TextBlob's tagger, and WordNet's rules of detachment with TextBlob's lexicon.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

from chatbots.huggingface import import_lock

THRESHOLD = 0.15
WEIGHTS = {"NN": 2.0, "VB": 1.0, "JJ": 0.5}
"""Weights by the first two letters of a Penn tag; others have weight 0."""
AnalyserName = Literal["nltk", "textblob"]
_WORDNET_POS = {"NN": "n", "VB": "v", "JJ": "a"}


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class TaggedToken(NamedTuple):
    """A token in lower case, its lemma, and its Penn tag."""

    surface: str
    base: str
    tag: str


class Keywords:
    """Keyword extractor with the counts of a corpus.

    Args:
        analyser: tokenizer, tagger and lemmatiser.
        n_utterances: size of the corpus.
        df: number of its utterances that contain each lemma of a noun, verb or adjective.

    Lemmas outside the corpus have df 0, so an utterance's keywords never depend on the other scored texts.
    """

    def __init__(self, analyser: AnalyserName, n_utterances: int, df: dict[str, int]) -> None:
        self.analyser, self.n_utterances, self.df = analyser, n_utterances, df

    @classmethod
    def from_utterances(cls, utterances: Iterable[str], analyser: AnalyserName) -> Keywords:
        """Count the lemmas of a corpus, once per utterance."""
        df: Counter[str] = Counter()
        candidates: set[str] = set()
        n = 0
        for text in utterances:
            tokens = tokens_of(text, analyser)
            df.update({token.base for token in tokens})
            candidates |= {t.base for t in tokens if t.tag[:2] in WEIGHTS and len(t.base) > 1}
            n += 1
        return cls(analyser, n, {word: df[word] for word in sorted(candidates)})

    def idf(self, base: str) -> float:
        """Return log10(N / (df + 1))."""
        return math.log10(self.n_utterances / (self.df.get(base, 0) + 1))

    def extract(self, text: str) -> list[str]:
        """Return the keywords of an utterance in order, with repeats."""
        return self.among(tokens_of(text, self.analyser))

    def among(self, tokens: Sequence[TaggedToken]) -> list[str]:
        """Return the keywords among an utterance's tokens."""
        count = Counter(token.base for token in tokens)
        keywords = []
        for token in tokens:
            weight = WEIGHTS.get(token.tag[:2], 0.0)
            if weight and len(token.base) > 1:
                score = weight * count[token.base] / len(tokens) * self.idf(token.base)
                if score > THRESHOLD:
                    keywords.append(token.base)
        return keywords

    def dump(self) -> bytes:
        """Serialise the counts as JSON."""
        values = {"analyser": self.analyser, "n_utterances": self.n_utterances, "df": self.df}
        return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def load(cls, content: bytes) -> Keywords:
        """Read the output of `dump`."""
        return cls(**json.loads(content))


def analyser_usual() -> AnalyserName:
    """Return the published analyser if its data are installed, otherwise `textblob`."""
    return "nltk" if analyser_missing("nltk") is None else "textblob"


def analyser_missing(name: str) -> str | None:
    """Return the reason why an analyser cannot be used here, or None."""
    if name == "textblob":
        return None if find_spec("textblob") else "the package textblob is not installed"
    from nltk.data import find

    for resource in ("tokenizers/punkt_tab", "taggers/averaged_perceptron_tagger_eng", "corpora/wordnet.zip"):
        try:
            find(resource)
        except LookupError:
            package = resource.partition("/")[2].removesuffix(".zip")
            return f"NLTK's {package} is not installed; fetch it with `python -m nltk.downloader {package}`"
    return None


def tokens_of(text: str, analyser: AnalyserName) -> list[TaggedToken]:
    """Tokenise an utterance in lower case, with tags and lemmas."""
    text = text.lower().replace("’", "'")
    if analyser == "nltk":
        return _by_nltk(text)
    # Treebank's rules split off a full stop only at the end of a text, so tokenise each sentence separately.
    cut = [word for sentence in _SENTENCE_END.split(text) for word in _tokenizer().tokenize(sentence)]
    words = [part for word in cut for part in _without_stop(word)]
    return [TaggedToken(word, _lemma(word, tag), tag) for word, tag in _textblob().tag(words)]


def _without_stop(word: str) -> tuple[str, ...]:
    """Split a word from its full stop, except in abbreviations like "u.s.".

    Treebank's rules leave the full stop attached before a punctuation mark or bracket.
    """
    bare = word[:-1]
    if word.endswith(".") and len(bare) > 1 and "." not in bare and bare[-1].isalpha():
        return bare, "."
    return (word,)


def _by_nltk(text: str) -> list[TaggedToken]:
    from nltk import pos_tag, word_tokenize
    from nltk.stem import WordNetLemmatizer

    lemmatise = WordNetLemmatizer().lemmatize
    tokens = []
    for word, tag in pos_tag(word_tokenize(text)):
        pos = _WORDNET_POS.get(tag[:2])
        tokens.append(TaggedToken(word, lemmatise(word, pos) if pos else word, tag))
    return tokens


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


class _TextBlob:
    """Tagger with TextBlob's lexicon and rules (from `pattern`, after Brill 1992)."""

    def __init__(self) -> None:
        with import_lock:
            from textblob.en import parser, tag
        self._tag, self.lexicon = tag, parser.lexicon

    def tag(self, words: Sequence[str]) -> list[tuple[str, str]]:
        """Return each word with its Penn tag."""
        if not words:
            return []
        # The tagger splits its input at spaces and interprets a slash as the start of a tag.
        tagged_words = self._tag(" ".join(word.replace("/", "|") for word in words), tokenize=False)
        tags = [tag for _, tag in tagged_words]
        return list(zip(words, tags, strict=True)) if len(tags) == len(words) else [(w, "NN") for w in words]


@lru_cache(maxsize=1)
def _textblob() -> _TextBlob:
    return _TextBlob()


# WordNet's rules of detachment (morphy): an ending and its replacement; the first match that is a word applies.
_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "NN": (("ies", "y"), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"),
           ("shes", "sh"), ("men", "man"), ("s", "")),
    "VB": (("ies", "y"), ("es", "e"), ("es", ""), ("s", ""), ("ied", "y"), ("ed", "e"), ("ed", ""),
           ("ing", "e"), ("ing", "")),
    "JJ": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
}  # fmt: skip
_IRREGULAR = {
    word: base
    for base, words in {
        "be": "am is are was were been being 's 're", "have": "has had having 've", "do": "does did done doing",
        "go": "goes went gone", "say": "said", "get": "got gotten", "make": "made", "know": "knew known",
        "think": "thought", "take": "took taken", "see": "saw seen", "come": "came", "give": "gave given",
        "find": "found", "tell": "told", "feel": "felt", "leave": "left", "keep": "kept", "begin": "began begun",
        "show": "shown", "hear": "heard", "run": "ran", "hold": "held", "bring": "brought", "write": "wrote written",
        "sit": "sat", "stand": "stood", "lose": "lost", "pay": "paid", "meet": "met", "buy": "bought",
        "speak": "spoke spoken", "spend": "spent", "grow": "grew grown", "win": "won", "teach": "taught",
        "send": "sent", "build": "built", "fall": "fell fallen", "sell": "sold", "draw": "drew drawn",
        "break": "broke broken", "wear": "wore worn", "drive": "drove driven", "choose": "chose chosen",
        "eat": "ate eaten", "drink": "drank drunk", "sing": "sang sung", "swim": "swam swum", "fly": "flew flown",
        "sleep": "slept", "catch": "caught", "fight": "fought", "lead": "led", "understand": "understood",
        "become": "became", "forget": "forgot forgotten", "child": "children", "man": "men", "woman": "women",
        "foot": "feet", "tooth": "teeth", "mouse": "mice", "wife": "wives", "life": "lives", "person": "people",
    }.items()
    for word in words.split()
}  # fmt: skip
_DOUBLED = re.compile(r"([bdgklmnprt])\1$")


@lru_cache(maxsize=100_000)
def _lemma(word: str, tag: str) -> str:
    """Return a form's lemma by irregular forms or the first matching rule."""
    kind = tag[:2]
    if kind not in _RULES:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    lexicon = _textblob().lexicon
    if kind == "NN" and ((tag == "NN" and word in lexicon) or word.endswith("ss")):
        return word
    if tag == "VB" or tag == "JJ":
        return word
    for ending, instead in _RULES[kind]:
        if word.endswith(ending) and len(word) - len(ending) > 1:
            stem = word[: -len(ending)] + instead
            if stem in lexicon:
                return stem
            if not instead and kind == "VB" and _DOUBLED.search(stem) and stem[:-1] in lexicon:
                return stem[:-1]
    return word
