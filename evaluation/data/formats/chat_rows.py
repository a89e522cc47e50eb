"""Assembly of a conversation from table rows.

Messages can be repeated for each rater.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, pairwise

from chatbots import Turn
from chatbots.text import quote
from evaluation.data.formats.base import BadRecord, Record, RecordRating, Skipped

Said = tuple[tuple[str, str, int], ...]
"""Speaker, text and vote of each utterance in a row."""


@dataclass(frozen=True, slots=True)
class ChatRow:
    """Row of a conversation with texts and a rater's answers.

    `number` is the row's position in the file.
    """

    line: int
    bot: str
    utterances: Said
    turn: float | None = None
    timestamp: str = ""
    rater: str = ""
    answers: Mapping[str, float] = field(default_factory=dict)
    comment: str = ""
    condition: Mapping[str, str] = field(default_factory=dict)
    number: int = 0

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Speaker and text of each utterance."""
        return tuple((speaker, text) for speaker, text, _vote in self.utterances)


@dataclass(slots=True)
class ChatReading:
    """Conversation with omitted parts and the detected repetition of its rows."""

    record: Record | None
    skipped: list[Skipped] = field(default_factory=list)
    is_joined: bool = False
    may_be_joined: bool = False


def split_by_bot(rows: Sequence[ChatRow]) -> list[Sequence[ChatRow]]:
    """Split the rows of one id into the conversations of several bots.

    Rows are split if each conversation begins with the first turn, or if other rows separate them; otherwise a row has
    the wrong bot.
    """
    by_bot: dict[str, list[ChatRow]] = defaultdict(list)
    for row in rows:
        by_bot[row.bot].append(row)
    groups = sorted(by_bot.values(), key=lambda group: min(row.number for row in group))
    if rows[0].turn is not None:
        are_several = len({min(row.turn or 0 for row in group) for group in groups}) == 1
    else:
        ends = [(min(row.number for row in group), max(row.number for row in group)) for group in groups]
        are_several = all(before[1] + 1 < after[0] for before, after in pairwise(ends))
    return list(groups) if are_several else [rows]


def read_chat(chat: str, rows: Sequence[ChatRow], turn_column: str = "") -> ChatReading:
    """Assemble a conversation from ordered rows.

    Args:
        chat: id of the conversation.
        rows: at least one.
        turn_column: name of the column with turn numbers.
    """
    reading = ChatReading(None)
    bots = sorted({row.bot for row in rows})
    if len(bots) > 1:
        reason = f"chat {quote(chat)} has more than one bot: {', '.join(bots)}"
        reading.skipped.append(Skipped(rows[0].line, reason))
        return reading
    try:
        if turn_column:
            unique_rows, occurrences = _numbered(chat, rows, turn_column)
        else:
            unique_rows, occurrences, reading.may_be_joined = _unnumbered(chat, rows)
    except BadRecord as error:
        reading.skipped.append(Skipped(rows[0].line, str(error)))
        return reading
    reading.is_joined = len(unique_rows) < len(rows)
    conditions = {tuple(sorted(row.condition.items())) for row in rows}
    if len(conditions) > 1:
        reading.skipped.append(Skipped(rows[0].line, f"chat {quote(chat)} has several conditions, which are ignored"))
    reading.skipped += _lost_votes(chat, rows, unique_rows)
    ratings = []
    groups: dict[tuple[str, int], list[ChatRow]] = defaultdict(list)
    for row, occurrence in zip(rows, occurrences, strict=True):
        if row.answers:
            groups[row.rater, 0 if row.rater else occurrence].append(row)
    for group in groups.values():
        rating, problems = _rating(chat, group)
        reading.skipped += problems
        if rating.answers:
            ratings.append(rating)
    utterances = [(utterance, row.timestamp) for row in unique_rows for utterance in row.utterances]
    reading.record = Record(
        rows[0].line,
        chat,
        bots[0],
        turns=tuple(Turn(speaker, text, vote) for (speaker, text, vote), _time in utterances),  # type: ignore[arg-type]
        times=tuple(datetime.fromisoformat(timestamp) for _utterance, timestamp in utterances if timestamp),
        ratings=tuple(ratings),
        condition=dict(rows[0].condition) if len(conditions) == 1 else {},
    )
    return reading


def _numbered(chat: str, rows: Sequence[ChatRow], column: str) -> tuple[list[ChatRow], list[int]]:
    """Return each turn's first row, and the repetition number of each row."""
    texts: dict[tuple[float | None, str], str] = {}
    unique_rows, occurrences = [], []
    counts: dict[tuple[float | None, str], int] = defaultdict(int)
    for row in rows:
        is_new = False
        for speaker, text, _vote in row.utterances:
            if (row.turn, speaker) not in texts:
                is_new = True
            elif texts[row.turn, speaker] != text:
                raise BadRecord(
                    f"chat {quote(chat)} has {column} {row.turn:g} of the {speaker} twice, with different texts; "
                    f"exclude this column (--column ={column}) to use the order of the rows"
                )
            texts[row.turn, speaker] = text
        key = (row.turn, row.utterances[0][0])
        occurrences.append(counts[key])
        counts[key] += 1
        if is_new:
            unique_rows.append(row)
    return unique_rows, occurrences


def _unnumbered(chat: str, rows: Sequence[ChatRow]) -> tuple[list[ChatRow], list[int], bool]:
    """Return distinct rows, each row's repetition number, and whether repetition is ambiguous."""
    by_rater: dict[str, list[ChatRow]] = defaultdict(list)
    for row in rows:
        by_rater[row.rater].append(row)
    if len(by_rater) > 1 and "" not in by_rater:
        sequences = [[row.texts for row in rater_rows] for rater_rows in by_rater.values()]
        if all(sequence == sequences[0] for sequence in sequences):
            return next(iter(by_rater.values())), [0] * len(rows), False
    runs = [list(run) for _texts, run in groupby(rows, key=lambda row: row.texts)]
    if any(len(run) > 1 for run in runs) and all(_are_raters(run) for run in runs):
        return [run[0] for run in runs], [n for run in runs for n in range(len(run))], False
    may_be_joined = False
    for size, occurrences in _patterns(rows, runs):
        parts = defaultdict(list)
        for row, occurrence in zip(rows, occurrences, strict=True):
            parts[occurrence].append(row)
        answer_sets = [
            {(row.rater, *sorted(row.answers.items())) for row in part if row.answers} for part in parts.values()
        ]
        if all(len(answers) == 1 for answers in answer_sets) and any(
            answers != answer_sets[0] for answers in answer_sets
        ):
            return parts[0], occurrences, False
        may_be_joined |= size > 1
    raters = [rater_rows for name, rater_rows in by_rater.items() if name]
    if len(raters) > 1:
        longest = {row.texts for row in max(raters, key=len)}
        if any(
            len(rater_rows) > 1 and rater_rows is not max(raters, key=len) and {r.texts for r in rater_rows} <= longest
            for rater_rows in raters
        ):
            raise BadRecord(
                f"chat {quote(chat)} repeats some of its messages for several raters, so their order is unknown; "
                "number the turns"
            )
    return list(rows), [0] * len(rows), may_be_joined


def _are_raters(run: Sequence[ChatRow]) -> bool:
    """Return True if copies of a repeated message differ in rater."""
    return len(run) == 1 or (len({row.rater for row in run}) == len(run) and all(row.rater for row in run))


def _patterns(rows: Sequence[ChatRow], runs: Sequence[Sequence[ChatRow]]) -> Iterator[tuple[int, list[int]]]:
    """Yield possible repetitions, of whole chats first, then of single messages.

    Each is the number of messages and each row's repetition number.
    """
    texts = [row.texts for row in rows]
    n = len(texts)
    for size in range(1, n // 2 + 1):
        if n % size == 0 and texts == texts[:size] * (n // size):
            yield size, [place // size for place in range(n)]
            break
    if len(runs) < n and len({len(run) for run in runs}) == 1:
        yield len(runs), [place % len(runs[0]) for place in range(n)]


def _lost_votes(chat: str, rows: Sequence[ChatRow], unique_rows: Sequence[ChatRow]) -> Iterator[Skipped]:
    votes = {row.texts: row.utterances for row in unique_rows}
    for row in rows:
        if votes.get(row.texts, row.utterances) != row.utterances and len(unique_rows) < len(rows):
            yield Skipped(row.line, f"chat {quote(chat)}: the votes on a repeated message differ; the first counts")


def _rating(chat: str, rows: Sequence[ChatRow]) -> tuple[RecordRating, list[Skipped]]:
    """Return a rater's rating, and the answers that differ between rows."""
    lines_by_answer: dict[str, dict[float, int]] = defaultdict(dict)
    for row in rows:
        for key, value in row.answers.items():
            lines_by_answer[key].setdefault(value, row.line)
    problems = []
    for key, places in lines_by_answer.items():
        if len(places) > 1:
            (first, first_line), (second, second_line), *_rest = places.items()
            rater_text = f"rater {quote(rows[0].rater)}" if rows[0].rater else "a rater without a name"
            problems.append(
                Skipped(
                    first_line,
                    f"chat {quote(chat)}: {rater_text} answers {key} with {first:g} in line {first_line} and "
                    f"{second:g} in line {second_line}, so these rate single replies, but a rater can give a chat "
                    "only one answer: average them first, or read the replies with evaluate_metrics --data",
                )
            )
    comments = list(dict.fromkeys(row.comment for row in rows if row.comment))
    last = rows[-1]
    submitted_at = datetime.fromisoformat(last.timestamp) if last.timestamp else None
    answers = {key: next(iter(places)) for key, places in lines_by_answer.items() if len(places) == 1}
    return RecordRating(answers, rater=last.rater, comment="\n".join(comments), submitted_at=submitted_at), problems
