"""Items rated by people or metrics: a context and a reply.

    {"id": "…", "source": "…", "context": ["…", …], "response": "…", "reference": "…"|null, "model": "…",
     "second_response": "…", "second_model": "…", "reference_score": 4, "task": "persona", "persona": ["…", …],
     "emotion": "…", "topic": "…",
     "gold": {"coherence": [4, 5]},
     "criteria": [{"text": "Names a next step.", "points": 5}, {"text": "Gives a wrong dose.", "points": -8}]}

Keys from `second_response` on are optional; a second reply is for comparisons. One JSON object per line (`.jsonl`,
`.jsonl.gz`). Other keys are ignored. If people have rated the first reply, `ratings` and `scale` are read as well
(`JudgedItem`, `judged_read`):

    {…, "ratings": [{"rater": "…", "coherence": 3}, …], "scale": [1, 5],
     "scales": {"coherence": [1, 5]}, "reversed": ["contradicts"]}

`scales` is for dimensions with their own scale; `reversed` names those on which a high answer is bad.

Items are made from positions in dialogues. Ghandeharioun et al. (2019) compare replies to contexts of more than 10
tokens without an unknown token; Huang et al. (2020) take two utterances before the reply; Shi et al. (2023) take
dialogues of at least two turns whose utterances have up to 25 words on average.

Data set texts are converted to normal spelling: tokens are joined before a model reads them. Sets mix conventions,
sometimes within one row: "I ' m fine .", "do n't", "it 's". Without this, a language model or an encoder would see
another text than the raters did. Metrics that count words as published use the text unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from chatbots import Conversation
from chatbots.corpora.vocabulary import tokenise
from chatbots.text import error_text, quote
from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Many, Number, ValuesError, values_read
from evaluation.data.formats.base import MAX_BOT_CHARS, MAX_ID_CHARS, Skipped, text_problem
from evaluation.data.formats.tables import is_missing
from evaluation.data.formats.text_files import text_lines


def _storable(text: str) -> str:
    problem = text_problem(text)
    if problem:
        raise ValueError(f"it must be a text that a database can store; this one {problem}")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it must not be blank")
    return text


def _nothing(value: Any) -> Any:
    return "" if value is None else value


def _numbered(value: Any) -> Any:
    """Convert a whole number to a name, because some files number items."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ANSWER_NUMBERS = {"first": 1, "same": 0, "second": -1}


def _right_answers(value: Any) -> Any:
    """Read correct answers: one, several, `{low, high}`, or a side.

    A side is the answer to a comparison.
    """
    if isinstance(value, dict) and value.keys() == {"low", "high"}:
        low, high = value["low"], value["high"]
        if not isinstance(low, int) or not isinstance(high, int) or not 0 <= high - low < 1000:
            raise ValueError("low and high must be whole numbers, low not above high")
        return list(range(low, high + 1))
    answers = value if isinstance(value, list | tuple) else [value]
    return [ANSWER_NUMBERS.get(answer, answer) if isinstance(answer, str) else answer for answer in answers]


RightAnswers = Annotated[
    Many[int],
    BeforeValidator(_right_answers),
    Field(min_length=1),
    TypeDescription("a number, a list of numbers, {low: 2, high: 4}, or “first”, “same” or “second”"),
]
"""Correct answers to one question about an item."""
Text = Annotated[str, AfterValidator(_storable)]
Said = Annotated[Text, AfterValidator(_not_blank)]
MOST_CRITERIA = 40


def _not_zero(points: int) -> int:
    if not points:
        raise ValueError("it must not be 0: use a positive number for a strength, a negative one for a fault")
    return points


class Criterion(InputModel):
    """Statement that is true or false of a reply, with the points for it."""

    text: Annotated[Said, Field(max_length=500)]
    points: Annotated[int, Field(ge=-100, le=100), AfterValidator(_not_zero)]


def _validate_criteria(criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
    texts = [criterion.text for criterion in criteria]
    if len(criteria) > MOST_CRITERIA:
        raise ValueError(f"it has {len(criteria)} criteria; at most {MOST_CRITERIA} are allowed")
    if twice := next((text for n, text in enumerate(texts) if text in texts[:n]), ""):
        raise ValueError(f"it has {quote(twice)} twice; list each criterion once")
    if criteria and all(criterion.points < 0 for criterion in criteria):
        points = ", ".join(str(criterion.points) for criterion in criteria[:5])
        raise ValueError(f"no criterion has positive points ({points}); add one, because scores are shares of these")
    return criteria


Criteria = Annotated[Many[Criterion], AfterValidator(_validate_criteria)]
"""Criteria of one item, in the order shown; empty if it has none."""


class ReplyItem(InputModel, extra="ignore"):
    """A reply with its context.

    Attributes:
        id: name within its source.
        source: data set it comes from.
        context: preceding utterances, oldest first.
        response: reply to rate.
        reference: human reply; None if there is none.
        model: model that gave the reply.
        second_response, second_model: reply to compare with; None if there is none.
        reference_score: earlier rating of the reference.
        task: kind of conversation it comes from.
        persona, emotion, topic: shown next to it, if known.
        gold: correct answers by question key, if known: the item then checks raters and is not rated.
        criteria: statements to tick, each with its points.
    """

    id: Annotated[Said, BeforeValidator(_numbered), Field(max_length=MAX_ID_CHARS)]
    source: Annotated[Text, BeforeValidator(_nothing), Field(max_length=100)] = ""
    context: Many[Text] = ()
    response: Said
    reference: Text | None = None
    model: Annotated[Text, BeforeValidator(_nothing), Field(max_length=MAX_BOT_CHARS)] = ""
    second_response: Said | None = None
    second_model: Annotated[Text, BeforeValidator(_nothing), Field(max_length=MAX_BOT_CHARS)] = ""
    reference_score: Number | None = None
    task: Annotated[Text, BeforeValidator(_nothing), Field(max_length=50)] = ""
    persona: Many[Text] = ()
    emotion: Annotated[Text, BeforeValidator(_nothing), Field(max_length=200)] = ""
    topic: Annotated[Text, BeforeValidator(_nothing), Field(max_length=200)] = ""
    gold: dict[str, RightAnswers] = {}
    criteria: Criteria = ()

    @property
    def key(self) -> str:
        """Name that is unique among items of all sources.

        Sources may use the same numbers.
        """
        return f"{self.source}/{self.id}" if self.source else self.id

    @property
    def replies(self) -> list[tuple[str, str]]:
        """The model and the text of each reply."""
        first = (self.model, self.response)
        if self.second_response is None:
            return [first]
        return [first, (self.second_model, self.second_response)]

    @property
    def panel(self) -> dict[str, Any]:
        """Non-empty persona, emotion and topic to show, as JSON values."""
        known = {"persona": list(self.persona), "emotion": self.emotion, "topic": self.topic}
        return {name: value for name, value in known.items() if value}


@dataclass(frozen=True, slots=True)
class ChatPair:
    """Two whole conversations to compare.

    Attributes:
        key: its name, as in `evaluation.analysis.pairwise_preference.PairJudgements.item`.
        model, second_model: the two bots.
        self_play: True if both are self-play.
    """

    key: str
    first: Conversation
    second: Conversation
    model: str = ""
    second_model: str = ""
    self_play: bool = False


class ReplyInContext(NamedTuple):
    """Input of a turn-level metric: a reply with its context.

    A human reply as reference is optional.

    Attributes:
        context: utterances before the reply, oldest first; utterances without a word are omitted.
        response: the reply.
        reference: human reply; None if there is none.
    """

    context: tuple[str, ...]
    response: str
    reference: str | None = None


def _scores(value: dict[str, float | str | None]) -> dict[str, float | str | None]:
    for name, score in value.items():
        if isinstance(score, str) and name not in _NOT_SCORES:
            raise ValueError(f"each value must be a number, but {name} is {quote(score)}")
    return value


VOTE = "vote"
"""Dimension of thumbs up or down. A missing vote is not a rating, because most people vote on few replies."""
VOTE_SCALE = (-1.0, 1.0)
_NOT_SCORES = ("rater", "comment", "comments")
Scores = Annotated[dict[str, Annotated[Number | str | None, TypeDescription("a number")]], AfterValidator(_scores)]
"""Scores of one person by dimension, and `rater`, the person."""


class JudgedItem(ReplyItem):
    """Reply rated by people.

    A blank reply is counted but not scored.

    Attributes:
        ratings: scores of each person by dimension; the mean, if only that was published.
        scale: lowest and highest value; None if the file does not state it.
        scales: scales of dimensions with their own scale.
        reversed: dimensions on which a high answer is bad; `ratings` contains the original answers.
    """

    response: Text
    ratings: Many[Scores] = ()
    scale: Many[Number] | None = None
    scales: dict[str, Many[Number]] = {}
    references: Many[Text] = ()
    reversed: Many[str] = ()

    @property
    def reply(self) -> ReplyInContext:
        """Input for metrics. Utterances and references without a word are omitted."""
        reference = self.reference if self.reference and self.reference.strip() else None
        context = tuple(text for text in self.context if text.strip())
        return ReplyInContext(context, self.response, reference)

    @property
    def replies_by_reference(self) -> list[ReplyInContext]:
        """The same once for each distinct reference, `reference` first; at least once."""
        reply = self.reply
        other_references = [text for text in self.references if text.strip() and text != reply.reference]
        first = [] if reply.reference is None else [reply.reference]
        known: list[str | None] = [*first, *dict.fromkeys(other_references)]
        return [reply._replace(reference=reference) for reference in known or [None]]

    @property
    def dimensions(self) -> list[str]:
        """Rated dimensions, in the order of the file."""
        names = dict.fromkeys(name for rating in self.ratings for name in rating)
        return [name for name in names if name not in _NOT_SCORES]

    def scores(self, dimension: str) -> tuple[list[tuple[str, float]], int]:
        """Return raters with scores on a dimension, and the number excluded.

        Excluded scores are outside the scale.

        Higher is better: for a reversed dimension the score is low + high − answer, or −answer if the scale is unknown.
        """
        ends = self.scales.get(dimension) or (() if self.scales else self.scale) or ()
        low, high = (min(ends), max(ends)) if ends else (float("-inf"), float("inf"))
        rater_scores = [
            ("" if is_missing(rating.get("rater")) else str(rating["rater"]), float(value))
            for rating in self.ratings
            if isinstance(value := rating.get(dimension), int | float)
        ]
        scores = [(rater, value) for rater, value in rater_scores if low <= value <= high]
        n_beyond = len(rater_scores) - len(scores)
        if dimension in self.reversed:
            turned = low + high if ends else 0.0
            scores = [(rater, turned - value) for rater, value in scores]
        return scores, n_beyond


I = TypeVar("I", bound=ReplyItem)  # noqa: E741
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ItemLine:
    """An item and its line in the file, from 1."""

    line: int
    item: ReplyItem


@dataclass(frozen=True, slots=True)
class JudgedLine:
    """A rated item and its line in the file, from 1."""

    line: int
    item: JudgedItem


def items_read(path: Path) -> Iterator[ItemLine | Skipped]:
    """Stream the items of a file.

    An invalid line comes as `Skipped`, with its number and all errors.
    """
    for line in _lines(path, ReplyItem):
        yield line if isinstance(line, Skipped) else ItemLine(*line)


def judged_read(path: Path) -> Iterator[JudgedItem | Skipped]:
    """Stream the rated items of a file.

    An invalid line comes as `Skipped`, with its number and all errors.
    """
    for line in judged_lines(path):
        yield line.item if isinstance(line, JudgedLine) else line


def judged_lines(path: Path) -> Iterator[JudgedLine | Skipped]:
    """Stream the rated items of a file with their lines; see `judged_read`."""
    for line in _lines(path, JudgedItem):
        yield line if isinstance(line, Skipped) else JudgedLine(*line)


def item_read(kind: type[I], plain: Any) -> I:
    """Read one item.

    Raises:
        ValuesError: lists all its errors.
    """
    item = values_read(kind, plain, subject="the line")
    if len(item.key) > MAX_ID_CHARS:
        raise ValuesError(f"source and id have {len(item.key)} characters together; at most {MAX_ID_CHARS} are allowed")
    return item


def _lines(path: Path, kind: type[I]) -> Iterator[tuple[int, I] | Skipped]:
    return json_lines(path, lambda plain: item_read(kind, plain))


def json_lines(path: Path, read: Callable[[Any], T]) -> Iterator[tuple[int, T] | Skipped]:
    """Yield the value of each JSON line with its number.

    A line that `read` rejects comes as `Skipped`.
    """
    for line in text_lines(path):
        if isinstance(line, Skipped):
            yield line
            continue
        number, text = line
        try:
            yield number, read(json.loads(text))
        except json.JSONDecodeError as error:
            problem = error.msg.removesuffix(" at")
            yield Skipped(number, f"not JSON: {problem} at character {error.pos + 1}")
        except RecursionError:
            yield Skipped(number, "not an item: nested too deeply")
        except ValueError as error:  # a mistake, or an integer with thousands of digits
            yield Skipped(number, error_text(error))


_UNKNOWN = re.compile(r"<unk>|\[unk\]|<unknown>|\bunk\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ContextFilters:
    """Conditions that a context must meet.

    Attributes:
        n_utterances: number of newest utterances kept; a position with fewer preceding ones is skipped.
        more_than_tokens: minimum number of context tokens, exclusive.
        unknown: True if a context may contain an unknown token.
        most_mean_words: maximum mean number of words per utterance; 0 for no limit.
    """

    n_utterances: int = 3
    more_than_tokens: int = 0
    unknown: bool = False
    most_mean_words: float = 0

    def takes(self, context: Sequence[str]) -> bool:
        """Return True if a context meets the conditions."""
        if len(context) < self.n_utterances or not all(text.strip() for text in context):
            return False
        if not self.unknown and any(_UNKNOWN.search(text) for text in context):
            return False
        if sum(len(tokenise(text)) for text in context) <= self.more_than_tokens:
            return False
        words = sum(len(text.split()) for text in context) / len(context)
        return not self.most_mean_words or words <= self.most_mean_words


@dataclass(frozen=True, slots=True)
class ContextSpan:
    """Position in a dialogue: the replying turn and the turns before it.

    Oldest first.
    """

    turn: int
    context: tuple[str, ...]
    reply: str


def context_spans(conversation: Conversation, filters: ContextFilters) -> Iterator[ContextSpan]:
    """Yield the positions of bot replies whose context meets the conditions."""
    texts = [turn.text for turn in conversation.turns]
    for n, turn in enumerate(conversation.turns):
        context = tuple(texts[max(0, n - filters.n_utterances) : n])
        if turn.speaker == "bot" and turn.text.strip() and filters.takes(context):
            yield ContextSpan(n, context, turn.text)


_APOSTROPHE = re.compile(r"(?<=\w)(?: ['’]|['’] | ['’] |['’])(?=(?:m|s|re|ve|ll|d|t)\b)", re.IGNORECASE)
_NEGATION = re.compile(r"(?<=\w) (?=n['’]t\b)", re.IGNORECASE)
_SPLIT_NEGATION = re.compile(r"(?<=\w) n ['’] ?t\b", re.IGNORECASE)
_DOTS = re.compile(r" ?\.(?: \.)+")
_BEFORE_MARK = re.compile(r" +(?=[,.!?;:%](?:[\s,.!?;:]|$))")
_BLANKS = re.compile(r"\s+")


def detokenise_text(text: str) -> str:
    """Return the text with clitics and punctuation joined to preceding words.

    White space is normalised; a text without such tokens is otherwise unchanged.
    """
    text = _BLANKS.sub(" ", text).strip()
    text = _SPLIT_NEGATION.sub("n't", text)
    text = _NEGATION.sub("", text)
    text = _APOSTROPHE.sub("'", text)
    text = _DOTS.sub(lambda match: match.group().replace(" ", ""), text)
    return _BEFORE_MARK.sub("", text)


def detokenise_reply(reply: ReplyInContext) -> ReplyInContext:
    """Join the tokens of a reply, its context and its reference."""
    context, response, reference = reply
    return ReplyInContext(
        tuple(map(detokenise_text, context)),
        detokenise_text(response),
        None if reference is None else detokenise_text(reference),
    )
