"""Metrics and a judge compared with the same participants: the choices of each between two replies or chats.

The same functions make what `evaluate_metrics --study --judged` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from evaluation.analysis.judged_pairs import Judgements
from evaluation.items import ChatPair, Item
from webapp.bots.text_store import text_store
from webapp.core.errors import Refused
from webapp.ratings.pairs import (
    compares_pairs,
    study_judgements,
    study_pair_chats,
    study_pair_items,
)
from webapp.results.benchmark_files import benchmark_folder
from webapp.studies.models import Study


@dataclass(frozen=True, eq=False)
class PairsJudged:
    """Participants' choices between a study's pairs, the pairs, and the file of a judge's choices, if any."""

    people: Judgements
    items: tuple[Item, ...] | tuple[ChatPair, ...]
    judged: Path | None

    @property
    def n_items(self) -> int:
        """Number of pairs."""
        return len(self.items)


def pairs_judged(study: Study, judged: str = "") -> PairsJudged:
    """Read a study's pairs.

    Args:
        judged: the name of an uploaded file of a judge's choices.

    Raises:
        Refused: nobody has compared anything in the study, or the file is not here any more.
    """
    people = study_judgements(study)
    if people is None or not len(people):
        raise Refused("not_judged", str(_("Nobody has compared two replies or chats there.")))
    items: tuple[Item, ...] | tuple[ChatPair, ...] = tuple(study_pair_items(study))
    items = items or tuple(study_pair_chats(study))
    path = benchmark_folder() / judged if judged else None
    if path is not None and not path.is_file():
        raise Refused(
            "no_file",
            str(_("The file of the judge’s choices is not here any more; upload it again.")),
        )
    return PairsJudged(people, items, path)


def pairs_refusal(study: Study, *, judged: bool) -> str:
    """Explain why a file of a judge's choices does not go with a study; empty if it does, or without a file."""
    if not judged or compares_pairs(study):
        return ""
    return str(
        _(
            "People do not compare two replies or chats in “{study}”, so a judge of pairs has nobody to stand beside."
        )
    ).format(study=study.name)


def choices_of_metric(
    found: PairsJudged, metric: str, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Return by question, as plain values, the agreement of a metric's choices with participants'."""
    from evaluation.choosing import choose_everywhere
    from evaluation.metrics.shared import Shared

    shared = Shared(settings.CONFAB_DEVICE, store=text_store())
    chosen = choose_everywhere(found.people, found.items, metric, shared=shared, progress=progress)
    return {question: one.to_json() for question, one in chosen.items()}


def choices_of_judge(found: PairsJudged) -> dict[str, Any]:
    """Return a judge's name, digest of model, prompt and window, biases, and the same of its choices as `choices`."""
    from evaluation.choosing import judge_everywhere
    from evaluation.judging import PairsJudged as Chosen
    from evaluation.judging_files import judged_file_read

    assert found.judged is not None, "there is no file of a judge"
    read = judged_file_read(found.judged)
    chosen = judge_everywhere(found.people, read)
    biases = Chosen(read.name, read.pairs, n_requests=0, refused=0).to_json()
    return {
        "title": read.name,
        "identity": read.judge,
        "biases": {name: biases[name] for name in ("n", "position_bias", "changed", "length_bias")},
        "choices": {question: one.to_json() for question, one in chosen.items()},
    }


def choices_result(found: PairsJudged, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a comparison of choices, as its job stores it, without the digest of the data."""
    return {
        "n_items": found.n_items,
        "questions": list(
            found.people.titles.items()
        ),  # PostgreSQL puts the keys of an object into another order
        "judge": next((one for one in results if not one["metric"]), None),
        "metrics": [one for one in results if one["metric"]],
    }
