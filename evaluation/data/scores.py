"""Scores from elsewhere: files with one row per score, `id, metric, value`.

The id is a conversation's or an item's, or a reply's: `CONVERSATION/TURN`, or the conversation's id next to a column
`turn`. Turns are numbered from 0, as in exports. The file is a table (CSV, Excel, Parquet) or JSON Lines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chatbots.text import quote
from evaluation.data.formats.base import MAX_ID_CHARS, Skipped, text_problem
from evaluation.data.formats.table_rows import csv_rows, head_rows
from evaluation.data.formats.tables import is_missing

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "conversation", "conversation_id", "dialogue_id", "item"),
    "metric": ("metric", "metric_name"),
    "value": ("value", "score"),
    "turn": ("turn", "reply"),
}
"""Names of the columns in a file, by meaning; only `turn` is optional."""
MAX_SCORES = 2_000_000
MAX_NAME_CHARS = 60
MAX_SCORE = 1e100
"""Largest absolute value: means and squares of larger ones overflow."""
_OTHER_FILES = {"rater", "annotator", "bot", "speaker", "text", "message", "turns", "messages", "response"}
"""Columns of files of ratings or messages."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Score:
    """One row of a file of scores.

    Attributes:
        id: as in the file; may end in `/TURN` if `turn` is None.
        name: name of the metric in Confab; `title` is that of the file.
        value: None if the cell is empty.
    """

    line: int
    id: str
    turn: int | None
    name: str
    title: str
    value: float | None


def metric_name(title: str) -> str:
    """Return a metric's name in Confab, such as `usl_h` for USL-H.

    Raises:
        ValueError: the title cannot become a name; the message says why.
    """
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        raise ValueError(
            f"the metric {quote(title)} needs a name that begins with an unaccented letter, of at most "
            f"{MAX_NAME_CHARS} letters and digits"
        )
    return name


def is_score_file(path: Path) -> bool:
    """Return True if the file has the columns of scores, and none of ratings or messages."""
    try:
        header = head_rows(path)[0]
        _find_columns(header, path.name)
    except (ValueError, OSError):
        return False
    return _OTHER_FILES.isdisjoint(name.strip().lower() for name in header)


def read_scores(path: Path) -> Iterator[Score | Skipped]:
    """Yield the file's scores; malformed rows are skipped with the reason.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is not a table of scores, or is too large.
    """
    columns = _find_columns(head_rows(path)[0], path.name)
    for n, row in enumerate(csv_rows(path)):
        if n >= MAX_SCORES:
            raise ValueError(f"{path.name} has more than {MAX_SCORES:,} rows; split it into several files")
        if isinstance(row, Skipped):
            yield row
            continue
        line, cells = row
        try:
            yield _read_score(line, {meaning: cells[column].strip() for meaning, column in columns.items()})
        except ValueError as error:
            yield Skipped(line, str(error))


def _find_columns(header: Collection[str], file_name: str) -> dict[str, str]:
    names = {name.strip().lower().replace(" ", "_"): name for name in header}
    columns = {
        meaning: names[alias] for meaning, aliases in COLUMNS.items() for alias in reversed(aliases) if alias in names
    }
    if missing := [meaning for meaning in COLUMNS if meaning != "turn" and meaning not in columns]:
        raise ValueError(
            f"{file_name} has no column {', '.join(missing)}; a file of scores has the columns id, metric and value"
        )
    return columns


def _read_score(line: int, cells: Mapping[str, str]) -> Score:
    """Read one row.

    Raises:
        ValueError: a cell is invalid; the message names it.
    """
    for meaning in ("id", "metric"):
        if not cells[meaning]:
            raise ValueError(f"the column {meaning} is empty")
        if problem := text_problem(cells[meaning]):
            raise ValueError(f"the column {meaning} {problem}")
        n_chars = len(re.sub(r"/\d{1,6}$", "", cells[meaning]))  # without the number of a turn
        if n_chars > MAX_ID_CHARS:
            raise ValueError(f"the column {meaning} is longer than {MAX_ID_CHARS} characters")
    text, turn = cells["value"], cells.get("turn", "")
    if turn and not re.fullmatch(r"\d{1,6}", turn, re.ASCII):
        raise ValueError(f"turn is {quote(turn)}; it must be the number of a turn, from 0")
    score = Score(
        line, cells["id"], int(turn) if turn else None, metric_name(cells["metric"]), cells["metric"][:100], None
    )
    if is_missing(text):
        return score
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"value is {quote(text)}; it must be a number such as 3.5")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"value is {quote(text)}; it must be finite, or empty if there is no score")
    if abs(value) > MAX_SCORE:
        raise ValueError(f"value is {quote(text)}; it must be between {-MAX_SCORE:g} and {MAX_SCORE:g}")
    return Score(line, score.id, score.turn, score.name, score.title, value)


Place = tuple[str, int | None]
"""Id of a conversation or item, and the number of a turn or None."""


@dataclass
class MatchedMetric:
    """Scores of one metric, by place.

    Attributes:
        n_missing: number of rows without a value.
    """

    name: str
    title: str
    values: dict[Place, float] = field(default_factory=dict)
    n_missing: int = 0


@dataclass
class MatchedScores:
    """Scores of a file that belong to known conversations.

    Attributes:
        skipped: rejected rows, with line and reason.
    """

    metrics: dict[str, MatchedMetric] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


def match_scores(
    path: Path,
    *,
    find: Callable[[str], str | None],
    turns: Callable[[str], Collection[int] | None],
    reserved: Collection[str] = (),
) -> MatchedScores:
    """Assign a file's scores to conversations, replies and items.

    Args:
        find: returns the id of the conversation or item with an id in the file; None if unknown.
            Raises ValueError if several have it.
        turns: returns the numbers of a conversation's replies; None for an item.
        reserved: names that a metric must not have.

    Raises:
        OSError, ValueError: as `read_scores`.
    """
    matched = MatchedScores()
    first_lines: dict[tuple[str, Place], int] = {}
    for score in read_scores(path):
        if isinstance(score, Skipped):
            matched.skipped.append(score)
            continue
        try:
            if score.name in reserved:
                raise ValueError(
                    f"the name {quote(score.name)} belongs to another metric, column or question; choose another"
                )
            place = _find_place(score, find, turns)
            metric = matched.metrics.setdefault(score.name, MatchedMetric(score.name, score.title))
            if metric.title != score.title:
                raise ValueError(f"{quote(score.title)} and {quote(metric.title)} have the same name {score.name}")
            first_line = first_lines.setdefault((score.name, place), score.line)
            if first_line != score.line:
                raise ValueError(f"{score.name} of {quote(score.id)} is in line {first_line} already")
        except ValueError as error:
            matched.skipped.append(Skipped(score.line, str(error)))
            continue
        if score.value is None:
            metric.n_missing += 1
        else:
            metric.values[place] = score.value
    return matched


def _find_place(
    score: Score, find: Callable[[str], str | None], turns: Callable[[str], Collection[int] | None]
) -> Place:
    """Return the place of a score.

    Raises:
        ValueError: there is no such conversation or reply, or several.
    """
    known_id, turn = find(score.id), score.turn
    if known_id is None and turn is None and (parts := re.fullmatch(r"(.+)/(\d{1,6})", score.id, re.ASCII)):
        known_id, turn = find(parts[1]), int(parts[2])
    if known_id is None:
        raise ValueError(f"there is no conversation, reply or item {quote(score.id)}")
    if turn is None:
        return known_id, None
    numbers = turns(known_id)
    if numbers is None:
        raise ValueError(f"{quote(score.id)} is an item, which has no turns")
    if turn not in numbers:
        raise ValueError(f"turn {turn} of {quote(score.id)} is not a reply of the bot")
    return known_id, turn
