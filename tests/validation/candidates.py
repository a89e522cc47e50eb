"""Table of the worth of each candidate on each public data set, for `docs/research/replacement.md`.

`python -m tests.validation.candidates FOLDER [NAME …]` prints the rows of each set when they are computed. FOLDER has
`interactive/` with rated chats and `turn_level/` with rated replies; the names limit it to some of their files.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import confab
from evaluation.agreement.held_out import seen_sets
from evaluation.agreement.metric_agreement import JudgedReplies, judgements_read
from evaluation.data.study import Study
from evaluation.hybrid.verdict import FEW_BOTS
from evaluation.metrics.base import Metric
from evaluation.metrics.likelihood import ReplyPmi
from evaluation.metrics.registry import metric_and_columns
from evaluation.number_format import figure, share, span
from evaluation.replacement.result import STANDINGS, CandidateVerdict, ReplacementResult


@dataclass(frozen=True)
class ChatSet:
    """Rated chats: the question, None for the mean of all, its scale, and the number of chats per bot that are read."""

    question: str | None
    scale: tuple[float, float]
    n_chats: int | None = None


CHATS = {
    "fed": ChatSet("overall", (0, 4)),
    "ieval": ChatSet("likeable", (1, 5)),
    "convai2_hackathon": ChatSet("overall", (1, 5)),
    "convai2_final": ChatSet("overall", (1, 5)),
    "dstc9": ChatSet("overall", (1, 5), 40),
    "reliable": ChatSet(None, (0, 100), 40),
}
MOST_REPLIES = 1000
"""Replies of a set that are read, in the order of the file; a larger set has no PMI, which takes a second for six."""
METRICS: dict[str, Metric | str] = {
    "words": "words_bot",
    "cosine": "semantic_similarity",
    "PMI": ReplyPmi("reply_pmi", dtype="bfloat16"),
}
"""Metrics of replies: their length, the cosine with the last utterance, and the language model's PMI in bfloat16."""
TITLES = {metric if isinstance(metric, str) else metric.name: title for title, metric in METRICS.items()}


def read_chats(path: Path, chat_set: ChatSet) -> Study:
    """Read the first chats of each bot, without controls."""
    scale = {chat_set.question or "": chat_set.scale}
    study = confab.read(path, scale=scale)
    n_chats: Counter[str] = Counter()
    kept = []
    for dialogue in study.dialogues:
        n_chats[dialogue.bot] += 1
        if dialogue.bot not in study.controls and n_chats[dialogue.bot] <= (chat_set.n_chats or len(study)):
            kept.append(dialogue)
    return replace(study, dialogues=tuple(kept))


def mirrored_scores(path: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return the language model's ratings of mirrored chats, by the id of the human chat and as means by bot."""
    scores, by_bot = {}, defaultdict(list)
    for dialogue in confab.read(path).dialogues:
        score = dialogue.ratings[0].answers["overall"]
        scores[dialogue.meta["human_dialogue_id"]] = score
        by_bot[dialogue.bot].append(score)
    return scores, {bot: fmean(several) for bot, several in by_bot.items()}


def compare_chats(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, ReplacementResult]]:
    """Yield the result of each set of rated chats, with its label."""
    for name, chat_set in CHATS.items():
        path = folder / f"{name}.jsonl.gz"
        if not path.exists() or (names and name not in names):
            continue
        study, question = read_chats(path, chat_set), chat_set.question or "mean of all questions"
        label = f"`{name}`, {question}" + (f", first {chat_set.n_chats} chats per bot" if chat_set.n_chats else "")
        mirrored = folder / f"{name}_otherplay.jsonl.gz"
        by_chat, by_bot = mirrored_scores(mirrored) if mirrored.exists() else ({}, {})
        title = "language model on mirrored chats"
        yield (
            label,
            confab.can_replace(
                study,
                target=chat_set.question,
                scores={title: by_chat} if by_chat else None,
                bot_scores={f"{title}, means of bots": by_bot} if by_bot else None,
            ),
        )


def compare_replies(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, ReplacementResult]]:
    """Yield the result of each source of rated replies, with its label."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        if names and path.name.removesuffix(".jsonl.gz") not in names:
            continue
        items = judgements_read(path).items
        for source in sorted({item.source for item in items}):
            rated = tuple(item for item in items if item.source == source)
            replies, is_cut = JudgedReplies(rated[:MOST_REPLIES]), len(rated) > MOST_REPLIES
            metrics = [
                metric
                for title, metric in METRICS.items()
                if not (is_cut and title == "PMI")
                and not source.startswith(seen_sets(metric_and_columns(metric)[0]) or ())
            ]
            label = f"`{source}`, {replies.target()}" + (f", first {MOST_REPLIES:,} replies" if is_cut else "")
            yield label, confab.can_replace(replies, metrics=metrics)


def format_saved(verdict: CandidateVerdict) -> str:
    """Return the ratings saved of 100, with the interval."""
    saved = verdict.worth.saved
    return "–" if saved.value is None else f"{figure(saved.value, 0)} {span(saved.low, saved.high, 0)}"


def format_rows(label: str, result: ReplacementResult) -> Iterator[list[str]]:
    """Yield a row for each candidate, or a single one for metrics of replies if there are few bots."""
    first = [label, str(len(result.bots)), f"{result.n_ratings:,}"]
    if result.unit == "reply" and len(result.bots) < FEW_BOTS:
        cells: list[list[str]] = [[], [], []]
        for verdict in result.candidates:
            cells[0].append(TITLES[verdict.name])
            cells[1].append(verdict.equality.answer.replace("_", " "))
            cells[2].append(format_saved(verdict))
        candidates, values, saved = ("; ".join(column) for column in cells)
        yield [*first, candidates, "not known", "–", values, saved]
        return
    for verdict in result.candidates:
        ranking, title = verdict.ranking, TITLES.get(verdict.name, f"{verdict.kind}, {verdict.name}")
        reason = f": {ranking.reason}" if ranking.reason is not None else ""
        r = "–" if ranking.r.value is None else share(ranking.r.value)
        r += "" if ranking.r.low is None else f" {span(ranking.r.low, ranking.r.high, shares=True)}"
        values = verdict.equality.answer.replace("_", " ")
        yield [*first, title, f"{STANDINGS[verdict.standing]}{reason}", r, values, format_saved(verdict)]
        first = ["", "", ""]


def main(folder: Path, names: list[str]) -> None:
    """Print the table, and the seconds of processor time of each set to standard error."""
    titles = ("data set, question", "bots", "ratings", "candidate", "answer", "r over bots", "values", "saved of 100")
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}", flush=True)
    for part, compare in (("interactive", compare_chats), ("turn_level", compare_replies)):
        start = time.process_time()
        for label, result in compare(folder / part, names):
            for row in format_rows(label, result):
                print(f"| {' | '.join(row)} |", flush=True)
            end = time.process_time()
            print(f"{label}: {end - start:.0f} s", file=sys.stderr, flush=True)
            start = end


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
