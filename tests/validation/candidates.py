"""Table of the worth of each candidate on each public data set, for `docs/research/replacement.md`.

`python -m tests.validation.candidates FOLDER [NAME …]` prints a row for each candidate. FOLDER has `interactive/` with
rated chats and `turn_level/` with rated replies; the names limit it to some of their files.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confab
from evaluation.agreement.metric_agreement import judgements_read
from evaluation.metrics.registry import metric_and_columns
from evaluation.number_format import figure, share, span
from evaluation.replacement.result import STANDINGS, ReplacementResult

METRICS = ("words_bot", "semantic_similarity")
"""Metrics of replies: a baseline, and the cosine with the last utterance."""
CHATS = {
    "fed": "overall",
    "ieval": "likeable",
    "convai2_hackathon": "overall",
    "convai2_final": "overall",
    "dstc9": "overall",
    "reliable": None,
}
"""Sets of rated chats, with the question; None: the usual one."""
MOST_CHATS = 40
"""Chats per bot that are read, in the order of the file."""


def results(folder: Path, names: list[str]) -> Iterator[tuple[str, ReplacementResult]]:
    """Yield each data set with its verdict."""
    reasons = {name: metric_and_columns(name)[0].unavailable_reason() for name in METRICS}
    metrics = [name for name, reason in reasons.items() if reason is None]
    print("\n".join(f"{name}: {reason}" for name, reason in reasons.items() if reason), file=sys.stderr)
    for path in sorted((folder / "turn_level").glob("*.jsonl.gz")):
        name = path.name.removesuffix(".jsonl.gz")
        if not names or name in names:
            judged = judgements_read(path)
            for source in sorted({item.source for item in judged.items}):
                of_source = replace(judged, items=tuple(item for item in judged.items if item.source == source))
                yield f"`{source}`, {of_source.target()}", confab.can_replace(of_source, metrics=metrics)
    for name, question in CHATS.items():
        path = folder / "interactive" / f"{name}.jsonl.gz"
        if path.exists() and (not names or name in names):
            counts: Counter[str] = Counter()
            chats = confab.read(str(path))
            kept = []
            for dialogue in chats.dialogues:
                counts[dialogue.bot] += 1
                kept += [dialogue] if counts[dialogue.bot] <= MOST_CHATS or name != "dstc9" else []
            chats = replace(chats, dialogues=tuple(kept))
            margin: dict[str, Any] = {} if question is None else {"target": question}
            yield f"`{name}`, {question or 'usual question'}", confab.can_replace(chats, **margin)


def print_rows(name: str, result: ReplacementResult) -> None:
    """Print a row for each candidate."""
    label = f"{name} | {len(result.bots)}, {result.n_ratings:,}"
    for verdict in result.candidates:
        ranking, saved = verdict.ranking, verdict.worth.saved
        reason = "" if ranking.reason is None else f": {ranking.reason}"
        ends = span(ranking.r.low, ranking.r.high, shares=True)
        r = "–" if ranking.r.value is None else f"{share(ranking.r.value)} {ends}"
        worth = "–" if saved.value is None else f"{figure(saved.value, 0)} {span(saved.low, saved.high, 0)}"
        answers = f"{STANDINGS[verdict.standing]}{reason} | {r} | {verdict.equality.answer.replace('_', ' ')} | {worth}"
        print(f"| {label} | {verdict.title} | {answers} | {verdict.n_left_out or '–'} |", flush=True)
        label = " | "


def main(folder: Path, names: list[str]) -> None:
    """Print the table."""
    titles = ("data set, question", "bots, ratings", "candidate", "answer", "r over bots", "values", "saved of 100")
    print(f"| {' | '.join((*titles, 'left out'))} |")
    print("|---|---|---|---|---|---|---|---|")
    for name, result in results(folder, names):
        print_rows(name, result)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
