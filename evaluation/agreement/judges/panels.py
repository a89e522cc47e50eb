"""Panels of judges: the scores and preferences of several judges, combined by vote or mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from chatbots.identity import Identity
from evaluation.agreement.judges.gold import GoldSet
from evaluation.agreement.judges.scoring import JudgeScores
from evaluation.agreement.llm_judge import JudgedPair, JudgedPairs

PanelRule = Literal["mean", "vote"]


def mean_scores(scores: np.ndarray) -> np.ndarray:
    """Return (N,) means over judges, NaN if a judge has no score.

    Args:
        scores: (J, N), a row per judge.
    """
    return np.asarray(scores.mean(axis=0))


def vote_scores(scores: np.ndarray, points: Sequence[float]) -> np.ndarray:
    """Return (N,) scale points with the most votes; the mean of tied points, NaN if a judge has no score.

    Args:
        scores: (J, N), a row per judge, who votes for the point nearest to the score.
        points: (P,) points of the scale, in order.
    """
    scale = np.array(points)
    votes = np.abs(np.nan_to_num(scores)[:, :, None] - scale).argmin(axis=2)
    counts = (votes[:, :, None] == np.arange(len(scale))).sum(axis=0)
    is_winner = counts == counts.max(axis=1, keepdims=True)
    return np.where(np.isfinite(scores).all(axis=0), (is_winner * scale).sum(axis=1) / is_winner.sum(axis=1), np.nan)


def panel_scores(gold: GoldSet, members: Sequence[JudgeScores], rule: PanelRule) -> JudgeScores:
    """Combine the scores of several judges of one gold set.

    A vote needs a scale of points. Cost, time and requests are those of all judges together.
    """
    is_fixed = all(member.is_fixed for member in members)
    n_passes = min((len(member.scores) for member in members if not member.is_fixed), default=1)
    passes = [np.stack([member.scores[min(k, len(member.scores) - 1)] for member in members]) for k in range(n_passes)]
    costs = [0.0 if member.is_fixed else member.cost for member in members]
    judged = [member.pairs for member in members if member.pairs is not None]
    return JudgeScores(
        f"panel_{rule}",
        f"Panel of {len(members)} judges, {rule}",
        Identity("judge_panel", "1", {"rule": rule, "judges": sorted(member.identity for member in members)}).key,
        prompt="",
        model=", ".join(dict.fromkeys(member.model for member in members)),
        scores=np.stack([mean_scores(rows) if rule == "mean" else vote_scores(rows, gold.points) for rows in passes]),
        is_fixed=is_fixed,
        n_requests=sum(member.n_requests for member in members),
        seconds=sum(member.seconds for member in members),
        cost=None if None in costs else sum(filter(None, costs)),
        pairs=panel_pairs(judged, rule) if judged and len(judged) == len(members) else None,
    )


def read_member(judge: Mapping[str, Any], pairs: Mapping[str, Any] | None) -> JudgeScores:
    """Return the scores of a judge from the JSON of its comparison, and the JSON of its pairs."""
    names = ("judge", "title", "identity", "prompt", "model", "is_fixed", "n_requests")
    per_request, cost = judge["n_requests"] / 1000, judge["cost_per_1000"]
    return JudgeScores(
        **{name: judge[name] for name in names},
        scores=np.array(judge["scores"], dtype=float),
        seconds=judge["seconds_per_1000"] * per_request,
        cost=None if cost is None else cost * per_request,
        pairs=None
        if not pairs
        else JudgedPairs(**{**pairs, "pairs": tuple(JudgedPair(**pair) for pair in pairs["pairs"])}),
    )


def panel_pairs(members: Sequence[JudgedPairs], rule: PanelRule) -> JudgedPairs:
    """Combine the preferences of several judges, for pairs that all of them judged.

    In a vote each order of a pair counts for the reply that most judges prefer in this order.
    """
    by_item = [{pair.item: pair for pair in member.pairs} for member in members]
    pairs = []
    for item, pair in by_item[0].items():
        if not all(item in judged for judged in by_item):
            continue
        judged_pairs = [judged[item] for judged in by_item]
        preference = np.array([judged.preference for judged in judged_pairs])
        first_place = np.array([judged.first_place for judged in judged_pairs])
        orders = np.array([first_place + preference - 0.5, first_place - preference + 0.5])
        if rule == "vote":
            forward, swapped = 0.5 + np.sign(np.sign(orders - 0.5).sum(axis=1)) / 2
        else:
            forward, swapped = orders.mean(axis=1)
        combined = (float(forward + 1 - swapped) / 2, float(forward + swapped) / 2)
        pairs.append(replace(pair, preference=combined[0], first_place=combined[1]))
    n_requests = sum(member.n_requests for member in members)
    name = f"Panel of {len(members)} judges, {rule}"
    return JudgedPairs(name, tuple(pairs), n_requests, 0, max(map(len, by_item)) - len(pairs))
