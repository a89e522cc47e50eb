"""The published tables of Ghandeharioun et al. (2019), arXiv 1906.09308, as fixtures of the statistics here.

Numbers are typed from the tables; what is asserted of them is what the paper says (effects of the
interactive study), what follows from them (ties and sums) or what a fit must give back.
"""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.stats.bradley_terry import bradley_terry
from evaluation.stats.correlation import correlate, within_groups
from tests.reference.test_selfplay_paper import AUTOMATIC, CORPUS, HUMAN, row

MODELS = ("HRED", "VHRED", "VHCR")
METRICS = ("ppl", "avg", "ext", "grd")
ONE_TURN = {  # Tables 4 and 6: EI against baseline, wins, losses, ties in %: Cornell, then Reddit
    "HRED": {
        "quality": row("40.8 24.5 34.8 31.3 29.5 39.3"),
        "fluency": row("10.3 17.3 72.5 22.8 20.0 57.3"),
        "relatedness": row("36.3 28.7 35.0 34.3 30.3 35.5"),
        "empathy": row("37.8 24.5 37.8 32.5 31.2 36.3"),
    },
    "VHRED": {
        "quality": row("36.9 36.6 26.6 39.0 34.0 27.0"),
        "fluency": row("23.4 27.7 48.9 29.0 23.3 47.7"),
        "relatedness": row("37.4 33.1 29.7 38.3 33.0 28.7"),
        "empathy": row("36.6 34.0 29.4 34.7 33.7 31.7"),
    },
    "VHCR": {
        "quality": row("33.0 29.0 38.0 33.7 27.3 39.0"),
        "fluency": row("13.5 25.5 66.0 24.7 18.3 57.0"),
        "relatedness": row("40.8 26.8 32.5 28.3 31.3 40.3"),
        "empathy": row("32.8 28.0 39.3 30.3 24.0 45.7"),
    },
}
ABLATION = {  # Table 5: PPL, Avg, Ext, Grd; baseline, input only, EI_emo, EI_inf, EI; Cornell, then Reddit
    "HRED": [
        row("52.311 .471 .329 .331 41.730 .649 .394 .474"),
        row("47.911 .549 .381 .392 41.227 .644 .395 .469"),
        row("48.619 .562 .359 .416 47.395 .541 .310 .371"),
        row("47.988 .562 .381 .405 41.083 .646 .394 .472"),
        row("47.636 .560 .383 .400 41.245 .651 .398 .482"),
    ],
    "VHRED": [
        row("49.414 .539 .352 .395 36.240 .635 .383 .464"),
        row("49.819 .543 .353 .393 40.248 .630 .377 .456"),
        row("51.346 .552 .358 .401 36.212 .631 .380 .458"),
        row("52.143 .539 .346 .392 36.518 .637 .381 .463"),
        row("50.526 .545 .355 .394 35.510 .636 .392 .465"),
    ],
    "VHCR": [
        row("61.000 .532 .345 .382 36.736 .619 .371 .448"),
        row("50.966 .531 .344 .382 37.342 .608 .365 .431"),
        row("52.407 .585 .374 .442 37.449 .619 .366 .444"),
        row("53.085 .544 .356 .390 37.109 .629 .378 .457"),
        row("49.243 .588 .369 .444 37.198 .639 .394 .469"),
    ],
}
AMBIGUOUS = {  # Table 7, of 100 examples: HRED, VHRED, VHCR on Cornell, then on Reddit
    "quality": row("12 13 15 26 15 9"),
    "fluency": row("4 10 10 12 20 6"),
    "relatedness": row("11 12 10 15 13 7"),
    "empathy": row("16 9 12 14 17 7"),
}


def plain_and_ei(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the six baselines and their EI versions: HRED, VHRED, VHCR on Cornell, then on Reddit."""
    means = np.array(HUMAN[name])
    return means[0::2], means[1::2]


@pytest.mark.parametrize("name", ["quality", "contingency", "fluency"])
def test_ei_is_rated_higher_in_all_six_pairs(name):
    plain, ei = plain_and_ei(name)
    assert (ei > plain).all()


def test_where_ei_is_rated_lower():
    plain, ei = plain_and_ei("empathy")
    assert (ei < plain).tolist() == [True, True, False, False, False, False]  # HRED, VHRED on Cornell
    plain, ei = plain_and_ei("diversity")
    assert (ei < plain).tolist() == [True, False, False, False, True, True]


def test_reddit_is_rated_higher_than_cornell_for_every_model():
    quality = np.array(HUMAN["quality"])
    assert (quality[6:] > quality[:6]).all()


def test_table_3_is_the_first_and_last_row_of_table_5():
    for k, name in enumerate(METRICS):
        found = [ABLATION[model][version][k] for model in MODELS for version in (0, 4)]
        found += [ABLATION[model][version][k + 4] for model in MODELS for version in (0, 4)]
        assert found == pytest.approx(AUTOMATIC[name])


def test_over_all_thirty_models_the_corpus_makes_most_of_the_correlation():
    """The caution of the fact sheet on the larger table: pooled against within the corpora."""
    table = np.array([ABLATION[model] for model in MODELS])  # (3, 5, 8)
    ppl = np.concatenate([table[:, :, 0].ravel(), table[:, :, 4].ravel()])
    average = np.concatenate([table[:, :, 1].ravel(), table[:, :, 5].ravel()])
    groups = ["cornell"] * 15 + ["reddit"] * 15
    pooled, within = correlate(ppl, average), within_groups(ppl, average, groups)
    assert pooled.r == pytest.approx(np.corrcoef(ppl, average)[0, 1])
    demeaned = [column.reshape(2, 15) - column.reshape(2, 15).mean(axis=1, keepdims=True) for column in (ppl, average)]
    expected = np.corrcoef(demeaned[0].ravel(), demeaned[1].ravel())[0, 1]
    assert within.r == pytest.approx(expected)
    assert pooled.r < within.r < 0
    assert CORPUS.count("reddit") == 6


def test_one_turn_percentages_add_up_but_for_the_misprint():
    for model, table in ONE_TURN.items():
        for name, found in table.items():
            sums = sum(found[:3]), sum(found[3:])
            if (model, name) == ("VHCR", "fluency"):
                assert sums[0] == pytest.approx(105.0)
                assert sums[1] == pytest.approx(100.0)
            else:
                assert all(99.85 < total < 100.25 for total in sums), (model, name)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("corpus", [0, 1])
def test_bradley_terry_with_ties_gives_back_the_one_turn_quality(model, corpus):
    """Of two bots Davidson's model has as many parameters as there are shares: it must fit them exactly."""
    shares = np.array(ONE_TURN[model]["quality"][3 * corpus : 3 * corpus + 3])
    counts = np.round(shares * 10).astype(int)  # thousandths
    outcomes = np.repeat([1.0, 0.0, 0.5], counts)
    found = bradley_terry(["EI"] * counts.sum(), ["plain"] * counts.sum(), outcomes)
    assert found.probabilities("EI", "plain") == pytest.approx(tuple(counts / counts.sum()), abs=1e-7)
    (pair,) = found.comparisons
    assert pair.difference == pytest.approx(np.log(counts[0] / counts[1]))
    assert pair.difference > 0  # EI wins more often than it loses, in all six


def test_ambiguous_examples_are_a_minority_everywhere():
    table = np.array(list(AMBIGUOUS.values()))
    assert table.shape == (4, 6)
    assert table.max() == 26
    assert table[:, :3].sum() == 134
    assert table[:, 3:].sum() == 161
