"""Courses in sentences."""

from __future__ import annotations

import numpy as np

from evaluation.analysis.trajectories import Grouping, TrajectoryGroup, trajectories
from evaluation.findings import Reason
from evaluation.ratings import RatingDimension
from tests.builders import frame_of
from webapp.dashboard.narrative.trajectories import trajectories_section, verdict_sentence
from webapp.results.compute import StudyTrajectories

GROUPS = Grouping(
    "best-worst",
    (TrajectoryGroup("best", tuple("abcd")), TrajectoryGroup("worst", tuple("efgh"))),
    lowest_best=5.0,
    highest_worst=3.0,
    n_tied=(2, 1),
)


def values(rng: np.random.Generator, gap: float) -> dict[str, list[float | None]]:
    return {pk: [float(value) + (gap if pk in "abcd" else 0.0) for value in rng.normal(size=5)] for pk in "abcdefgh"}


def test_the_verdict_names_measures_by_direction() -> None:
    rng = np.random.default_rng(0)
    found = trajectories(
        GROUPS,
        {"words_user": values(rng, 9.0), "sentiment_user": values(rng, 0.0)},
        ["words_user", "sentiment_user", "votes"],
    )
    assert verdict_sentence(found) == (
        "Best 4 against worst 4: higher in “words, participant”; no difference shown in “sentiment, participant” "
        "(means of conversations, errors clustered by person, p < .10 by Holm’s correction)."
    )
    nothing = trajectories(Grouping("by-trait", reason=Reason("no_trait", "none is known", traits="EI")), {}, [])
    quality = RatingDimension("quality", "Quality", 1, 7)
    section = trajectories_section(frame_of({}, quality), StudyTrajectories(found, nothing))
    (figure,) = section.figures
    assert "(5.00 and above, 3.00 and below)" in figure.method
    assert "Ties at the borders (2 and 1 conversation) were drawn" in figure.note
    assert section.points[0].startswith("Words, participant: ")
    assert "no bot here is known" in section.missing[0]
