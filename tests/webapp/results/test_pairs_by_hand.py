"""A small stored study of pairs, computed again from its rows: Davidson's model by scipy, kappas by scikit-learn, shares by pandas."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.multitest import multipletests

from tests.builders import make_participant, make_study
from webapp.ratings.models import Rating
from webapp.ratings.services import rating_add
from webapp.results.pairs import study_pairs
from webapp.studies.items import item_add
from webapp.studies.models import Study
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

BOTS = ["brief", "listing", "wordy"]
LEVEL = 0.9
SHARED = 6
Z = {"brief": 0.0, "listing": 0.3, "wordy": 0.9}


def reply(bot: str, rng: np.random.Generator) -> str:
    """Return a text whose length and markup go with the bot, but not only."""
    words = " ".join(["word"] * int(rng.integers(3, 12) + 8 * (bot == "wordy")))
    return words + "\n- one\n- two" * int(rng.integers(0, 2) + (bot == "listing"))


def judged() -> Study:
    """Make a study of nine pairs, three of each two bots, that eight people judge, some kinder to what stands first."""
    rng = np.random.default_rng(11)
    study = make_study(
        "p", protocol="pairwise", bots=[], state="draft", n_items=9, kappa_items=SHARED
    )
    for number in range(9):
        pair = list(combinations(BOTS, 2))[number % 3]
        two = [pair[i] for i in rng.permutation(2)]
        replies = [{"model": bot, "text": reply(bot, rng)} for bot in two]
        item_add(study=study, key=f"i{number}", context=["hi"], responses=replies)
    study = study_edit(study=study, state=Study.State.COLLECTING)
    for _person in range(8):
        leans = rng.normal(0, 0.4)
        task = task_open(participant=make_participant(study))
        # In the items' own order, whatever the draw: always the same answers.
        for slot in task.slots.select_related("item").order_by("item__key"):
            first, second = slot.item.responses
            longer = np.log2(len(first["text"]) / len(second["text"]))
            ahead = Z[first["model"]] - Z[second["model"]] + 0.5 * longer + leans
            ahead += rng.normal(0, 1)
            said = 0 if abs(ahead) < 0.4 else int(np.sign(ahead))
            answers = dict.fromkeys(("fluency", "relatedness", "empathy"), 0)
            rating_add(task=task, target=slot.item, answers={**answers, "quality": said})
    return study


def rows_of(study: Study) -> pd.DataFrame:
    """Read the judgements from the rows of the database, first reply by first reply."""
    found = []
    for rating in Rating.objects.filter(item__study=study).select_related("item").order_by("pk"):
        one, two = rating.item.responses
        marks = [len(re.findall(r"^- ", text["text"], re.M)) for text in (one, two)]
        found.append(
            {
                "item": rating.item.key,
                "rater": str(rating.participant_id),
                "first": one["model"],
                "second": two["model"],
                "said": rating.answers["quality"],
                "length": np.log2((1 + len(one["text"])) / (1 + len(two["text"]))),
                "markup": np.log2((1 + marks[0]) / (1 + marks[1])),
            }
        )
    return pd.DataFrame(found)


def davidson(rows: pd.DataFrame, controls: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Fit π_i : π_j : ν √(π_i π_j) by brute force; the sandwich's covariance has whole raters as units.

    Returns:
        log strengths of the second and third bot less the first one's, log ν and the controls; their covariance.
    """
    places = {bot: n for n, bot in enumerate(BOTS)}
    of = rows[["first", "second"]].replace(places).to_numpy(dtype=int)
    more = rows[controls].to_numpy(dtype=float)
    said = rows["said"].to_numpy()

    def each(at: np.ndarray) -> np.ndarray:
        strength = np.concatenate([[0.0], at[:2]])
        one = strength[of[:, 0]] + more @ at[3:]
        two = strength[of[:, 1]]
        odds = np.exp(np.stack([one, (one + two) / 2 + at[2], two], axis=1))
        return np.log((odds / odds.sum(axis=1, keepdims=True))[np.arange(len(said)), 1 - said])

    def gradient(of_what: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
        steps = np.eye(len(at)) * 1e-5
        return np.stack([(of_what(at + h) - of_what(at - h)) / 2e-5 for h in steps], axis=-1)

    start = np.zeros(3 + len(controls))
    fit = optimize.minimize(
        lambda at: -each(at).sum(),
        start,
        jac=lambda at: -gradient(each, at).sum(axis=0),
        options={"gtol": 1e-9},
    )
    scores = pd.DataFrame(gradient(each, fit.x)).groupby(rows["rater"].to_numpy()).sum()
    hessian = gradient(lambda at: gradient(each, at).sum(axis=0), fit.x)
    bread, n = np.linalg.inv(hessian), len(scores)
    return fit.x, bread @ (scores.T.to_numpy() @ scores.to_numpy()) @ bread * n / (n - 1)


@pytest.mark.django_db
def test_a_stored_study_of_pairs_is_what_brute_force_says() -> None:
    study = study_edit(study=judged(), state=Study.State.ENDED)
    rows = rows_of(study)
    found = study_pairs(study).results
    assert found is not None
    assert (found.n, found.n_items, found.n_raters) == (72, 9, 8)

    # Strengths with ties, plain and between replies equally long and equally marked up.
    t = stats.t.ppf(0.5 + LEVEL / 2, 8 - 1)
    for controls, fitted in (([], found.strengths), (["length", "markup"], found.held)):
        at, covariance = davidson(rows, controls)
        contrasts = {(0, 1): [-1, 0], (0, 2): [0, -1], (1, 2): [1, -1]}
        p_values, ranges = [], dict.fromkeys(BOTS, (1, 3))
        for (i, j), weights in contrasts.items():
            contrast = np.zeros(len(at))
            contrast[:2] = weights
            gap, error = contrast @ at, np.sqrt(contrast @ covariance @ contrast)
            pair = next(one for one in fitted.comparisons if (one.a, one.b) == (BOTS[i], BOTS[j]))
            assert pair.difference == pytest.approx(gap, abs=1e-4)
            assert (pair.low, pair.high) == pytest.approx(
                (gap - t * error, gap + t * error), abs=1e-3
            )
            p_values.append((i, j, gap, 2 * stats.t.sf(abs(gap) / error, 7)))
        assert fitted.tie == pytest.approx(np.exp(at[2]), abs=1e-4)
        for n, effect in enumerate(fitted.controls):
            half = t * np.sqrt(covariance[3 + n, 3 + n])
            assert (effect.value, effect.low, effect.high) == pytest.approx(
                (at[3 + n], at[3 + n] - half, at[3 + n] + half), abs=1e-3
            )
        assert [effect.name for effect in fitted.controls] == controls
        # Rank ranges: one place down for each bot that is stronger beyond chance after Holm's correction.
        told = multipletests([p for *_pair, p in p_values], alpha=1 - LEVEL, method="holm")[0]
        for bot in range(3):
            pairs = [
                (i, j, gap)
                for (i, j, gap, _p), is_told in zip(p_values, told, strict=True)
                if is_told
            ]
            above = sum((i == bot and gap < 0) or (j == bot and gap > 0) for i, j, gap in pairs)
            below = sum((i == bot and gap > 0) or (j == bot and gap < 0) for i, j, gap in pairs)
            ranges[BOTS[bot]] = (1 + above, 3 - below)
        assert fitted.rank_ranges() == ranges

    # Shares are of judgements; their intervals resample whole raters.
    rows["a"] = rows[["first", "second"]].min(axis=1)
    rows["b"] = rows[["first", "second"]].max(axis=1)
    rows["score"] = rows["said"] * np.where(rows["first"] == rows["a"], 1, -1)
    rng = np.random.default_rng(1)
    for (a, b), part in rows.groupby(["a", "b"]):
        outcome = found.of("quality", a, b)
        assert outcome is not None
        assert outcome.wins.mean == pytest.approx((part["score"] == 1).mean())
        assert outcome.ties.mean == pytest.approx((part["score"] == 0).mean())
        by_rater = part.groupby("rater")["score"].agg(["sum", "count"]).to_numpy()
        drawn = by_rater[rng.integers(0, 8, (4000, 8))].sum(axis=1)
        ends = np.quantile(drawn[:, 0] / drawn[:, 1], [0.05, 0.95])
        assert (outcome.ahead.low, outcome.ahead.high) == pytest.approx(ends, abs=0.06)

    # Kappa: the median over pairs of raters who share as many items as the study says.
    table = rows.pivot(index="item", columns="rater", values="score")
    kappas = []
    for one, two in combinations(table.columns, 2):
        both = table[[one, two]].dropna()
        if len(both) >= SHARED:
            kappas.append(cohen_kappa_score(both[one], both[two]))
    kappa = next(one for one in found.kappas if one.question == "quality")
    assert kappa.n_pairs == len(kappas) == 28
    assert kappa.found.value == pytest.approx(np.median(kappas))
