"""How unlike people are simulated participants whose turns stand within stored chats, and do they react as people do?

    python -m tests.validation.realism [--size quick|full] [--per-bot N] [--data FOLDER] [--sets a,b]

Bots of public sets cannot be talked to again: each human turn is replaced by what the participant would say there, by
chats of other people with other bots alone. `quick` takes the first 20 conversations of each bot of one set. Sentence
vectors are kept in the folder CONFAB_DATA_DIR, where it is set. Prints the table of
`docs/background/simulated_participants.md`, and the verdicts.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from chatbots.participants.base import participant_load
from evaluation.data.loading import read
from evaluation.data.study import Study, StudyDialogue, text_store, vectors_kept_in
from evaluation.number_format import figure, span
from evaluation.simulation.realism.chats import QUANTITIES
from evaluation.simulation.realism.compare import realism
from evaluation.simulation.realism.result import TRAITS, RealismResult, different_traits
from evaluation.simulation.simulated_chats import human_chats, simulate_within
from evaluation.stats.effect_sizes import Effect
from tests.validation.validate import ALL_SEVEN, DATA, RatedSet, table

SETS = (
    RatedSet("reliable", ALL_SEVEN, exclude_bots=("qc",)),
    RatedSet("dstc9", ("overall",)),
    RatedSet("convai2_final", ("overall",)),
    RatedSet("convai2_hackathon", ("overall",)),
    RatedSet("convai2_export", ("overall",)),
)
PARTICIPANTS = ("replayed", "retrieval")
QUICK_PER_BOT = 20


def first_of_each_bot(study: Study, per_bot: int | None) -> Study:
    """Return the first conversations of each bot; all of them without a number."""
    counts: Counter[str] = Counter()
    kept = []
    for dialogue in study.dialogues:
        counts[dialogue.bot] += 1
        if per_bot is None or counts[dialogue.bot] <= per_bot:
            kept.append(dialogue)
    return replace(study, dialogues=tuple(kept))


def simulated(study: Study, name: str) -> Study:
    """Return the study with the turns of a simulated participant in place of people's."""
    chats = human_chats(study)
    participant = participant_load(name, people=chats, store=text_store())
    try:
        played = simulate_within(chats, participant)
    finally:
        participant.unload()
    rows = [
        StudyDialogue(one.conversation, chat.bot, "simulated")
        for chat, one in zip(chats, played, strict=True)
        if one.error is None
    ]
    return Study(name, tuple(rows))


def printed(one: Effect) -> str:
    """Write an estimate with its interval."""
    return figure(one.value) + ("" if one.low is None else f" {span(one.low, one.high)}")


def rows_of(rated: RatedSet, found: RealismResult) -> tuple[list[str], list[list[str]]]:
    """Return the set's row of figures, and its rows of reactions that people show."""
    vectors, traits = found.tests
    row = next(
        (
            prediction
            for prediction in found.predictions
            if prediction.fit == "strong" and prediction.applied_to == "simulated"
        ),
        None,
    )
    names = [rated.name, found.participant]
    first = [
        *names,
        f"{len(found.bots)}",
        f"{found.n_people}",
        printed(vectors.auc),
        printed(traits.auc),
        ", ".join(TRAITS[trait].lower() for trait in different_traits(found.traits)) or "none",
        "–" if row is None else printed(row.r),
    ]
    slopes = [
        [
            *names,
            reaction.title,
            printed(reaction.people),
            printed(reaction.simulated),
            printed(reaction.difference),
            reaction.standing,
        ]
        for reaction in found.reactions
        if reaction.standing not in ("people_unclear", "not_known") or reaction.reaction in ("sentiment", "similarity")
    ]
    return first, slopes


def main() -> int:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=["quick", "full"], default="quick")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the sets")
    parser.add_argument("--sets", default="")
    parser.add_argument("--per-bot", type=int, help="first conversations of each bot")
    options = parser.parse_args()
    chosen = options.sets.split(",") if options.sets else [one.name for one in SETS]
    here = [one for one in SETS if one.name in chosen and (options.data / f"{one.name}.jsonl.gz").exists()]
    if not here:
        print(f"There is no validation data in {options.data}.", file=sys.stderr)
        return 1
    folder = tempfile.TemporaryDirectory(prefix="confab-realism-")
    vectors_kept_in(lambda: Path(os.environ.get("CONFAB_DATA_DIR") or folder.name))
    rows, slopes = [], []
    for rated in here if options.size == "full" else here[:1]:
        study = read(options.data / f"{rated.name}.jsonl.gz")
        study = study.where(bots=[bot for bot in study.bots if bot not in rated.exclude_bots])
        study = first_of_each_bot(study, options.per_bot or (QUICK_PER_BOT if options.size == "quick" else None))
        for name in PARTICIPANTS:
            begun = time.monotonic()
            played = simulated(study, name)
            halfway = time.monotonic()
            result = realism(study, played, target=rated.targets)
            first, more = rows_of(rated, result)
            rows.append(first)
            slopes += more
            print(f"{rated.name}, {result.verdict.sentence}", flush=True)
            print(result.summary() if options.size == "full" else "", flush=True)
            print(f"{halfway - begun:.0f} s to simulate, {time.monotonic() - halfway:.0f} s to compare", flush=True)
    print(
        table(
            rows,
            ["set", "participant", "bots", "chats", "AUC, vectors", "AUC, traits", "different traits", "r, strong"],
        )
    )
    if slopes:
        print()
        heads = ["set", "participant", "reaction", "people", "simulated", "difference", "standing"]
        print(table(slopes, heads))
    print(f"{len(QUANTITIES)} quantities of turns. Intervals: 95 %, chats resampled; of reactions and r over bots.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
