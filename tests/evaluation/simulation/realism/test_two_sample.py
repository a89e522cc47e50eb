"""Classifier two-sample tests: honesty of the folds, AUC and its interval against independent implementations."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from chatbots import Conversation, Turn
from evaluation.simulation.realism import two_sample
from evaluation.simulation.realism.chats import ChatTurns, text_key
from evaluation.simulation.realism.two_sample import LOG_ODDS_VARIANCE, ChatPool, auc_of, traits_test, vectors_test
from tests.evaluation.simulation.realism.made import WORDS, chat, person_side, random_side, read, turns_of


def both(rng: np.random.Generator, **options: float) -> tuple[ChatTurns, ChatTurns]:
    """Return people, and simulated participants with a shift."""
    shift = options.pop("shift", 0.0)
    return (
        random_side(rng, side="p", **options),  # type: ignore[arg-type]
        random_side(rng, side="s", shift=shift, **options),  # type: ignore[arg-type]
    )


def test_auc_of_one_fold_is_sklearn_s() -> None:
    rng = np.random.default_rng(0)
    is_simulated = np.arange(60) >= 25
    scores = rng.normal(size=60).round(1) + is_simulated
    result = auc_of(scores, is_simulated, np.zeros(60, dtype=int), np.arange(60))
    assert result.value == pytest.approx(roc_auc_score(is_simulated, scores))
    # Of a perfect separation: as many of 25 pairs as there are, p^25 = .025.
    perfect = auc_of(is_simulated * 1.0, is_simulated, np.zeros(60, dtype=int), np.arange(60))
    assert (perfect.value, perfect.low, perfect.high) == (1, pytest.approx(0.025 ** (1 / 25)), 1)


def test_the_interval_is_delong_s_on_the_log_odds_wider_by_root_2() -> None:
    rng = np.random.default_rng(1)
    is_simulated = np.arange(70) >= 30
    scores = rng.normal(size=70) + 0.8 * is_simulated
    result = auc_of(scores, is_simulated, np.zeros(70, dtype=int), np.arange(70))
    above = (scores[is_simulated][:, None] > scores[~is_simulated]).astype(float)
    variance = above.mean(axis=1).var(ddof=1) / 40 + above.mean(axis=0).var(ddof=1) / 30
    auc = above.mean()
    half = 1.959964 * (2 * variance) ** 0.5 / (auc * (1 - auc))
    assert (result.low, result.high) == pytest.approx((expit(logit(auc) - half), expit(logit(auc) + half)))


def test_folds_weigh_the_same_and_are_not_compared_with_one_another() -> None:
    is_simulated = np.array([False, True] * 10)
    fold = np.repeat([0, 1], [6, 14])
    scores = np.where(fold == 0, 100.0, 0.0) + np.arange(20) % 5
    parts = [roc_auc_score(is_simulated[fold == k], scores[fold == k]) for k in (0, 1)]
    assert auc_of(scores, is_simulated, fold, np.arange(20)).value == pytest.approx(np.mean(parts))


def test_chats_of_a_cluster_count_as_one() -> None:
    rng = np.random.default_rng(2)
    scores, is_simulated = rng.normal(size=40), np.arange(40) >= 20
    alone = auc_of(scores, is_simulated, np.zeros(40, dtype=int), np.arange(40))
    rows = np.tile(np.arange(40), 3)
    thrice = auc_of(scores[rows], is_simulated[rows], np.zeros(120, dtype=int), rows)
    assert (thrice.value, thrice.low, thrice.high) == pytest.approx((alone.value, alone.low, alone.high))


def test_training_has_no_bot_and_no_text_of_the_fold_that_it_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)

    def texts(bot: int, side: str) -> list[str]:
        return [" ".join(rng.choice(WORDS[: 8 + bot], size=2)) + rng.choice(["", " ", "!"]) for _ in range(12)]

    def side(name: str) -> ChatTurns:
        made = [
            chat(f"{name}{bot}-{k}", f"b{bot}", "hi", *[x for text in texts(bot, name) for x in ("ok?", text)])
            for bot in range(3)
            for k in range(12)
        ]
        return read(*made)

    people, simulated = side("p"), side("s")
    pool = ChatPool.from_sides(people, simulated)
    all_texts = [text_key(text) for text in (*people.texts, *simulated.texts)]
    bots = np.concatenate([people.bots, simulated.bots])[pool.chat]
    scored: list[int] = []
    trained: list[np.ndarray] = []
    unseen = ChatPool.unseen

    def watched(self: ChatPool, fold: int) -> np.ndarray:
        scored.append(fold)
        trained.append(unseen(self, fold))
        return trained[-1]

    monkeypatch.setattr(ChatPool, "unseen", watched)
    result = vectors_test(pool)
    assert result.auc.value is not None
    assert len(scored) == 3
    for fold, kept in zip(scored, trained, strict=True):
        of_fold = pool.fold[pool.chat] == fold
        assert kept.any()
        assert set(bots[kept]).isdisjoint(bots[of_fold])
        kept_texts = {all_texts[row] for row in np.flatnonzero(kept)}
        assert kept_texts.isdisjoint(all_texts[row] for row in np.flatnonzero(of_fold))
    # Both rules do something: without the one on texts some were on both sides.
    assert result.n_masked > 0


def test_scores_do_not_depend_on_the_labels_of_the_fold() -> None:
    rng = np.random.default_rng(4)
    people, simulated = both(rng, n_bots=3, shift=1.0)
    pool = ChatPool.from_sides(people, simulated)
    mine = pool.bot == 0
    swapped = replace(pool, is_simulated=np.where(mine, ~pool.is_simulated, pool.is_simulated))
    one, other = vectors_test(pool), vectors_test(swapped)
    assert one.by_bot["b0"] == pytest.approx(1 - other.by_bot["b0"])


def test_permuted_labels_give_an_auc_near_chance() -> None:
    rng = np.random.default_rng(5)
    for test in (vectors_test, traits_test):
        values, covered = [], 0
        for _ in range(20):
            people, simulated = both(rng, n_bots=4, n_chats=24, shift=1.5)
            pool = ChatPool.from_sides(people, simulated)
            shuffled = pool.is_simulated.copy()
            for bot in np.unique(pool.bot):
                rows = np.flatnonzero(pool.bot == bot)
                shuffled[rows] = rng.permutation(shuffled[rows])
            auc = test(replace(pool, is_simulated=shuffled)).auc
            assert auc.value is not None
            assert auc.low is not None
            assert auc.high is not None
            values.append(auc.value)
            covered += auc.low <= 0.5 <= auc.high
        assert np.mean(values) == pytest.approx(0.5, abs=0.05)
        assert covered >= 16  # of 20; fewer have a chance below 1 %


def test_a_shift_is_found_by_both_designs() -> None:
    people, simulated = both(np.random.default_rng(6), shift=1.5)
    for result in (
        vectors_test(ChatPool.from_sides(people, simulated)),
        traits_test(ChatPool.from_sides(people, simulated)),
    ):
        assert result.is_separable
        assert result.folds == "bots"
        assert set(result.by_bot) == {"b0", "b1", "b2", "b3"}
        assert (result.n_people, result.n_simulated) == (80, 80)


def test_a_fold_s_scores_are_sklearn_s() -> None:
    people, simulated = both(np.random.default_rng(7), n_bots=2, n_chats=15, shift=0.7)
    pool = ChatPool.from_sides(people, simulated)
    result = vectors_test(pool)
    turns = np.concatenate([np.concatenate([side.vectors] * 2, axis=1) for side in (people, simulated)])
    means = np.stack([turns[pool.chat == k].mean(axis=0) for k in range(60)])
    first = pool.bot == 0
    centre, scale = means[~first].mean(axis=0), means[~first].std(axis=0)
    model = LogisticRegression(C=LOG_ODDS_VARIANCE / 8, max_iter=1000)
    model.fit((means[~first] - centre) / scale, pool.is_simulated[~first])
    scores = model.decision_function((means[first] - centre) / scale)
    assert result.by_bot["b0"] == pytest.approx(roc_auc_score(pool.is_simulated[first], scores), abs=0.005)


def test_one_bot_has_folds_of_conversations() -> None:
    people, simulated = both(np.random.default_rng(8), n_bots=1, n_chats=60, shift=1.5)
    result = vectors_test(ChatPool.from_sides(people, simulated))
    assert result.folds == "conversations"
    assert result.is_separable


def test_two_groups_of_people_are_not_separated_by_knowing_the_persons() -> None:
    rng = np.random.default_rng(12)
    values, n_separable = [], 0
    for seed in range(10):
        pool = ChatPool.from_sides(person_side(rng, side="p"), person_side(rng, side="s"), seed)
        assert pool.folds == "bots_and_persons"
        results = vectors_test(pool), traits_test(pool)
        values.append([result.auc.value for result in results])
        n_separable += any(result.is_separable for result in results)
    assert n_separable <= 1
    assert np.mean(values) < 0.52
    shifted = ChatPool.from_sides(person_side(rng, side="p"), person_side(rng, side="s", shift=2.0))
    assert vectors_test(shifted).is_separable


def test_training_has_no_person_of_the_fold_that_it_scores() -> None:
    rng = np.random.default_rng(13)
    pool = ChatPool.from_sides(person_side(rng, side="p"), person_side(rng, side="s"))
    for fold in np.unique(pool.fold).tolist():
        trains, scored = pool.trains(fold), pool.fold == fold
        assert trains.any()
        assert set(pool.person[trains]).isdisjoint(pool.person[scored])
        assert set(pool.bot[trains]).isdisjoint(pool.bot[scored])


def test_one_chat_of_each_person_needs_folds_of_bots_alone() -> None:
    people, simulated = both(np.random.default_rng(14))
    named = replace(people, persons=np.array([f"w{k}" for k in range(len(people.bots))], dtype=object))
    assert ChatPool.from_sides(named, simulated).folds == ChatPool.from_sides(people, simulated).folds == "bots"


def test_few_chats_give_no_auc_but_a_reason() -> None:
    people, simulated = both(np.random.default_rng(9), n_bots=2, n_chats=4)
    result = vectors_test(ChatPool.from_sides(people, simulated))
    assert result.auc.value is None
    assert result.auc.reason is not None
    assert result.auc.reason.code == "few_training_chats"


def test_chats_simulated_within_stored_ones_share_their_cluster_and_fold() -> None:
    people, simulated = both(np.random.default_rng(10), n_bots=1, n_chats=20)
    within = replace(simulated, chats=people.chats)
    pool = ChatPool.from_sides(people, within)
    assert pool.is_within
    assert (pool.person[20:] == pool.person[:20]).all()
    assert (pool.fold[20:] == pool.fold[:20]).all()
    assert not ChatPool.from_sides(people, simulated).is_within


def test_giveaways_name_the_turns_with_most_log_odds_each_text_once() -> None:
    rng = np.random.default_rng(11)
    n = 40
    bots = [f"b{number % 2}" for number in range(n)]
    chats = np.repeat(np.arange(n), 2)
    plain = rng.normal(size=(2 * n, 2)) * 0.1
    people = turns_of(plain[:, 0], chats, bots, vectors=plain)
    texts = [f"plain {row}" for row in range(2 * n)]
    vectors = rng.normal(size=(2 * n, 2)) * 0.1 + (0.5, 0)
    for row in (4, 9, 30):
        texts[row], vectors[row] = "I AM A ROBOT", (3, 0)
    vectors[50] = (2, 0)
    simulated = turns_of(vectors[:, 0], chats, bots, vectors=vectors, texts=texts, side="s")
    giveaways = vectors_test(ChatPool.from_sides(people, simulated)).giveaways
    assert [giveaway.text for giveaway in giveaways[:2]] == ["I AM A ROBOT", "plain 50"]
    assert giveaways[0].n == 3
    assert giveaways[1].conversation == "s25"
    assert giveaways[0].score > giveaways[1].score > 0
    assert len(giveaways) <= two_sample.N_GIVEAWAYS
    assert len({giveaway.text for giveaway in giveaways}) == len(giveaways)


def test_a_chat_without_an_answer_takes_no_part() -> None:
    silent = ("a", Conversation("silent", (Turn("human", "hi"), Turn("bot", "hello"))))
    talks = [chat(f"c{k}", "a", "hi", "hello", f"nice {WORDS[k]}") for k in range(29)]
    others = [chat(f"s{k}", "a", "hi", "hello", f"bad {WORDS[-k]}") for k in range(29)]
    result = vectors_test(ChatPool.from_sides(read(silent, *talks), read(*others)))
    assert (result.n_people, result.n_simulated) == (29, 29)
