"""The leaderboard: ranks that the tests leave open, and the groups of bots that cannot be told apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from evaluation.analysis.comparisons import bot_means, compare
from evaluation.analysis.leaderboard import alike_groups, leaderboard
from tests.evaluation.analysis.test_comparisons import ratings


def test_ranks_leave_open_what_the_tests_leave_open() -> None:
    read = ratings()
    compared = compare(read)
    found = leaderboard(bot_means(read), compared)
    places = {place.bot: place for place in found.places}
    assert [place.bot for place in found.places] == [*compared.order, "bad"]
    # x has one rating: nothing is known of its place. c is below a and b, so at least third.
    assert places["x"].ranks == (1, 4)
    assert places["a"].ranks == places["b"].ranks == (1, 3)
    assert places["c"].ranks == (3, 4)
    assert compared.to_json()["ranks"]["a"] == [1, 3]
    assert (places["bad"].ranks, places["bad"].is_control) == (None, True)
    assert set(places["a"].too_close) == {"b", "x"}
    assert (found.n_told_apart, found.n_pairs) == (compared.n_told_apart, compared.n_pairs)
    for place in found.places:
        assert place.compared_mean == compared.means[place.bot]
        assert place.mean == bot_means(read).rows[place.bot, "quality"].interval


def test_groups_join_all_pairs_that_cannot_be_told_apart_and_no_other() -> None:
    compared = compare(ratings())
    found = leaderboard(bot_means(ratings()), compared)
    joined = {tuple(sorted(pair)) for group in found.groups for pair in combinations(group, 2)}
    bots = [place.bot for place in found.places]
    assert joined == {tuple(sorted(pair)) for pair in combinations(bots, 2) if not compared.are_told_apart(*pair)}


def test_groups_of_any_graph_cover_it_and_no_group_is_told_twice() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        bots = [f"b{i}" for i in range(9)]
        close: dict[str, set[str]] = {bot: set() for bot in bots}
        for a, b in combinations(bots, 2):
            if rng.random() < 0.5:
                close[a].add(b)
                close[b].add(a)
        groups = alike_groups(close)
        covered = {pair for group in groups for pair in combinations(group, 2)}
        assert covered == {(a, b) for a, b in combinations(bots, 2) if b in close[a]}
        assert len(set(groups)) == len(groups)


def test_groups_of_chosen_bots_know_no_others() -> None:
    close = {"a": ("b", "c"), "b": ("a", "c")}
    assert alike_groups(close) == (("a", "b"),)
    assert alike_groups({"a": (), "b": ()}) == ()
