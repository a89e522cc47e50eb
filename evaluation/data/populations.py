"""Target populations as tables of shares, and groups of raters large enough to be shown.

`published_groups` is the only rule for small groups: tables, plots, reports, the API, exports and notebooks show the
groups that it returns.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from io import StringIO

from chatbots.text import did_you_mean, quote

MARGIN_COLUMNS = ("question", "answer", "share")
SMALLEST_GROUP = 10
"""Usual minimum number of raters in a group that is shown."""
OTHER_ANSWERS = "Other answers"
NO_ANSWER = "No answer"

Margins = Mapping[str, Mapping[str, float]]
"""Share of each answer in the population, by question."""


def read_margins(text: str) -> dict[str, dict[str, float]]:
    """Parse a table `question,answer,share`; empty for an empty text.

    Shares of a question may miss 1 by rounding and are then divided by their sum.

    Raises:
        ValueError: for an invalid row, or shares of a question that do not sum to 1.
    """
    if not text.strip():
        return {}
    rows = [[cell.strip() for cell in row] for row in csv.reader(StringIO(text)) if any(map(str.strip, row))]
    if tuple(rows[0]) != MARGIN_COLUMNS:
        raise ValueError(f"the first line is {quote(','.join(rows[0]))}; it must be {','.join(MARGIN_COLUMNS)}")
    margins: dict[str, dict[str, float]] = {}
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(MARGIN_COLUMNS) or not all(row):
            raise ValueError(f"row {number} is {quote(','.join(row))}; it must have a question, an answer and a share")
        question, answer, share_text = row
        try:
            share = float(share_text)
        except ValueError:
            share = -1.0
        if not 0 < share <= 100:
            raise ValueError(f"the share in row {number} is {quote(share_text)}; it must be above 0 and at most 1")
        if answer in margins.setdefault(question, {}):
            raise ValueError(f"row {number} repeats the answer {quote(answer)} to {question}; list each answer once")
        margins[question][answer] = share
    for question, shares in margins.items():
        total = sum(shares.values())
        if abs(total - 1) > max(0.01, 0.005 * len(shares)):
            advice = "write 0.4 for 40 %" if total > 2 else "add the missing answers or correct the shares"
            raise ValueError(f"the shares of {question} sum to {total:g}; they must sum to 1: {advice}")
        margins[question] = {answer: share / total for answer, share in shares.items()}
    return margins


def validate_margin_answers(margins: Margins, possible: Mapping[str, Sequence[str]]) -> str:
    """Return an error about an unknown question or answer; empty if all are known.

    Args:
        possible: possible answers by question.
    """
    for question, shares in margins.items():
        if question not in possible:
            known = ", ".join(possible) or "none"
            return (
                f"There is no question {quote(question)} with answers to choose before the task. Choose from: {known}."
            )
        for answer in shares:
            if answer not in possible[question]:
                near = did_you_mean(answer, possible[question])
                return (
                    f"{quote(answer)} is not an answer to {question}. {near} Its answers: "
                    f"{', '.join(possible[question])}."
                )
    return ""


def label_people(people: Iterable[str], answers: Mapping[str, str], shares: Collection[str] = ()) -> list[str]:
    """Return the label of each person, from which groups are made.

    Results and packages share it: if their groups differed, the mean of a small one would follow from both.

    Args:
        answers: answer of each person; persons may be missing.
        shares: answers in the table of the population; others count as no answer. Empty for all answers.
    """
    labels = (answers.get(person, "") for person in people)
    return [label if label and (not shares or label in shares) else NO_ANSWER for label in labels]


def published_groups(labels: Sequence[str], fewest: int) -> dict[str, str]:
    """Return the published group of each label, so that no small group can be seen or computed.

    Labels of fewer people than `fewest` are merged into `OTHER_ANSWERS`. If the merged group is still small, its number
    and its mean would follow from the total and the other groups, so the next smallest labels join it.

    Args:
        labels: label of each person; those without an answer need one, too.

    Returns:
        Label to group. If all people together are too few, everyone is in one group.
    """
    counts = Counter(labels)
    ascending = sorted(counts, key=lambda label: (counts[label], label))
    merged = [label for label in ascending if counts[label] < fewest]
    n_merged = sum(counts[label] for label in merged)
    for label in ascending[len(merged) :]:
        if not merged or n_merged >= fewest:
            break
        merged.append(label)
        n_merged += counts[label]
    return {label: OTHER_ANSWERS if label in merged else label for label in counts}


def withhold_combinations(rows: Sequence[Sequence[str]], fewest: int) -> list[Sequence[str] | None]:
    """Return rows of answers; None for those whose combination too few people share.

    The people withheld are at least `fewest`, too, or nobody.
    """
    keys = ["\n".join(("", *row)) for row in rows]  # never equal to OTHER_ANSWERS alone
    groups = published_groups(keys, fewest)
    return [None if groups[key] == OTHER_ANSWERS else row for key, row in zip(keys, rows, strict=True)]
