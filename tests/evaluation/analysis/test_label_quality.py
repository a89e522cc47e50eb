"""Labels inferred by Dawid and Skene's model: the paper's own data, crowd-kit, and simulated raters."""

import json
from itertools import product
from textwrap import wrap

import numpy as np
import pandas as pd
import pytest
from crowdkit.aggregation.classification.dawid_skene import DawidSkene

from evaluation.analysis.label_quality import LabelQuality, label_quality
from evaluation.analysis.raters import RaterAnalysis, analyse_raters
from evaluation.data.ratings import RatingDimension, Ratings
from evaluation.number_format import result_dump, result_load
from evaluation.stats.label_model import LabelTable, fit_label_model

# Dawid and Skene (1979), Table 1: 45 patients, five anaesthetists, of whom the first assessed each patient three times.
PATIENTS = wrap(
    "111111133343341122122222312122232222223322122211133334332222223232222344444442223343111111122232121211111"
    "111211111111111111111222222122213222222222222222122232222212222111111111111112322222111111111111111121121"
    "111111133332331111111222222222232324334343221223223232333333432111111111111111212111232222212111112222222",
    7,
)


def anaesthetists() -> pd.DataFrame:
    rows = [
        (patient, max(0, place - 2), int(label) - 1)
        for patient, labels in enumerate(PATIENTS)
        for place, label in enumerate(labels)
    ]
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def simulated(seed: int, accuracy: list[float], *, n: int = 150, per: int = 5, k: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    truth = rng.choice(k, n, p=np.arange(k, 0, -1) / (k * (k + 1) / 2))
    rows = [
        (item, rater, int(truth[item]) if rng.random() < accuracy[rater] else int(truth[item] + rng.integers(1, k)) % k)
        for item in range(n)
        for rater in rng.choice(len(accuracy), per, replace=False)
    ]
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def read(table: pd.DataFrame, k: int = 3) -> Ratings:
    frame = pd.DataFrame(
        {
            "conversation": "i" + table.task.astype(str),
            "bot": "b",
            "rater": "r" + table.worker.astype(str),
            "kind": table.label.astype(float),
        }
    )
    return Ratings.from_frame(frame, [RatingDimension("kind", "Kind", 0, k - 1)])


def test_the_published_error_rates_come_out() -> None:
    data = anaesthetists()
    model = fit_label_model(LabelTable.from_columns(*(data[c].to_numpy() for c in ("task", "worker", "label")), 4))
    assert model.is_converged
    assert model.prior[0].round(2).tolist() == [0.40, 0.42, 0.11, 0.07]
    first = [[0.89, 0.11, 0, 0], [0.07, 0.88, 0.05, 0], [0, 0.34, 0.66, 0], [0, 0, 0.56, 0.44]]
    assert model.errors[0, :, 0].T.round(2).tolist() == first


@pytest.mark.parametrize("data", [anaesthetists(), simulated(3, [0.9, 0.8, 0.8, 0.7, 0.6, 0.6])], ids=["1979", "made"])
def test_crowd_kit_agrees(data: pd.DataFrame) -> None:
    k = data.label.max() + 1
    table = LabelTable.from_columns(*(data[c].to_numpy() for c in ("task", "worker", "label")), k)
    model = fit_label_model(table, most_steps=12)
    theirs = DawidSkene(12, tol=-9).fit(data)  # its own criterion can stop it after four steps
    steps = list(range(k))
    assert model.posterior[:, 0] == pytest.approx(theirs.probas_.sort_index()[steps].to_numpy(), abs=1e-6)
    assert model.prior[0] == pytest.approx(theirs.priors_[steps].to_numpy(), abs=1e-6)
    errors = theirs.errors_.reindex(pd.MultiIndex.from_tuples(product(range(model.errors.shape[0]), steps))).fillna(0)
    assert model.errors[:, :, 0].reshape(-1, k) == pytest.approx(errors[steps].to_numpy(), abs=1e-6)


def test_a_resample_is_a_fit_of_repeated_items() -> None:
    data = simulated(1, [0.9, 0.8, 0.7, 0.6], n=60, per=3)
    columns = [data[c].to_numpy() for c in ("task", "worker", "label")]
    weights = np.random.default_rng(0).multinomial(60, np.full(60, 1 / 60), size=2).T
    both = fit_label_model(LabelTable.from_columns(*columns, 3), weights)
    for b in range(2):
        rows = [
            (number, *data.iloc[i][["worker", "label"]])
            for number, item in enumerate(np.repeat(np.arange(60), weights[:, b]))
            for i in np.flatnonzero(columns[0] == item)
        ]
        alone = fit_label_model(LabelTable.from_columns(*(np.array(c) for c in zip(*rows, strict=True)), 3))
        assert both.prior[b] == pytest.approx(alone.prior[0], abs=1e-3)
        assert both.n_correct[:, b] == pytest.approx(alone.n_correct[:, 0], abs=0.05)


@pytest.fixture(scope="module")
def quality() -> LabelQuality:
    """Nine good raters, one who guesses, and one who always gives the most frequent label."""
    data = simulated(7, [0.85] * 9 + [1 / 3] + [0.85], n=200)
    data.loc[data.worker == 10, "label"] = 0
    [labels] = label_quality(read(data))
    return labels


def test_poor_raters_are_listed_with_their_evidence(quality: LabelQuality) -> None:
    low = {rater.rater: rater for rater in quality.low_raters}
    assert {name: rater.low for name, rater in low.items()} == {"r9": "below_others", "r10": "at_chance"}
    guesser, constant = low["r9"], low["r10"]
    assert guesser.accuracy.low < 1 / 3 < guesser.accuracy.high < guesser.others.low < 0.85
    assert constant.accuracy.mean == pytest.approx(constant.chance)
    assert len(quality.raters) == 11
    for rater in quality.raters:
        assert np.sum(rater.errors, axis=0) == pytest.approx(1)


def test_majority_and_inferred_labels_are_next_to_each_other(quality: LabelQuality) -> None:
    tied = [item for item in quality.items if item.majority is None]
    differing = [item for item in quality.items if item.majority not in (None, item.label)]
    assert (quality.n_items, quality.n_ties, quality.n_differ) == (200, len(tied), len(differing))
    assert sum(quality.votes) == pytest.approx(1)
    assert sum(share.mean for share in quality.prior) == pytest.approx(1)
    assert all(share.low < share.mean < share.high for share in quality.prior)


def test_too_little_overlap_is_refused_with_its_numbers() -> None:
    data = simulated(2, [0.8] * 5, n=99, per=2)
    data.loc[len(data)] = (500, 0, 1)
    [labels] = label_quality(read(data))
    assert (labels.reason.code, labels.n_items, labels.n_single) == ("few_labelled_items", 99, 1)
    [labels] = label_quality(read(data[data.worker < 2]))
    assert labels.reason.code == "few_label_raters"
    unnamed = read(data)
    unnamed = Ratings(
        unnamed.conversation, unnamed.bot, np.full(len(unnamed), None), unnamed.answers, unnamed.dimensions
    )
    [labels] = label_quality(unnamed)
    assert (labels.n_unnamed, labels.n_items, labels.n_single) == (199, 0, 100)


def test_scales_have_no_labels() -> None:
    table = read(simulated(2, [0.8] * 5)).to_frame()
    assert label_quality(Ratings.from_frame(table, [RatingDimension("kind", "Kind", 0, 6)])) == ()


def test_names_stay_out_of_json_unless_asked_for() -> None:
    analysis = analyse_raters(read(simulated(4, [0.8] * 6)))
    assert result_load(json.loads(json.dumps(result_dump(analysis, RaterAnalysis))), RaterAnalysis) == analysis
    [labels] = analysis.to_json()["labels"]
    assert (labels["n_raters"], "raters" in labels) == (6, False)
    assert len(analysis.to_json(names=True)["labels"][0]["raters"]) == 6
    assert "Accuracy of labels of kind" in analysis.summary()
