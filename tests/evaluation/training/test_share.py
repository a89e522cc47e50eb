"""Shares of the training data: nested, drawn by the seed, of the training part alone, and of no old checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from chatbots.corpora.dialogues import nested_share
from chatbots.training.data import data_prepare
from chatbots.validation import ValuesError
from evaluation.training.config import config_check, learned_get
from evaluation.training.contract import Splits, dialogues_read
from tests.chatbots.training.builders import config as bot_config
from tests.chatbots.training.builders import corpus_write
from tests.evaluation.training.builders import SharedWords, values


@pytest.fixture(autouse=True)
def _listed() -> Any:
    from evaluation.training.config import learned_metrics

    learned_metrics.add(SharedWords())
    yield
    learned_metrics.discard("shared_words")


def test_a_smaller_share_is_part_of_a_larger_one_of_the_same_seed() -> None:
    items = list(range(100))
    quarter, half, whole = (nested_share(items, share, 7) for share in (0.25, 0.5, 1))
    assert (len(quarter), len(half), whole) == (25, 50, items)
    assert set(quarter) < set(half)
    assert quarter == sorted(quarter)
    assert nested_share(items, 0.25, 8) != quarter
    assert len(nested_share(items, 1e-9, 7)) == 1


def test_only_the_training_part_of_a_corpus_shrinks(tmp_path: Path) -> None:
    corpus_write(tmp_path)
    parts = {}
    for share, seed in ((1, 3), (0.5, 3), (0.25, 3), (0.25, 4)):
        data = {"corpora": [{"path": "small.jsonl"}], "share": share}
        parts[share, seed] = dialogues_read(config_check(values(data=data, seed=seed), tmp_path))
    train = {key: {dialogue.turns for dialogue in part.train} for key, part in parts.items()}
    assert train[0.25, 3] < train[0.5, 3] < train[1, 3]
    assert train[0.25, 3] != train[0.25, 4]
    assert len({part.validation for part in parts.values()}) == len({part.test for part in parts.values()}) == 1
    whole = data_prepare(bot_config(tmp_path))
    half = data_prepare(bot_config(tmp_path, data={"share": 0.5}))
    assert half.n_dialogues["train"] == whole.n_dialogues["train"] / 2
    assert half.test_dialogues == whole.test_dialogues


def test_without_a_share_a_config_is_the_same_as_before(tmp_path: Path) -> None:
    corpus_write(tmp_path)
    for config in (config_check(values(), tmp_path), bot_config(tmp_path)):
        assert "share" not in config.decisive["data"], "or trainings of earlier versions could not be resumed"
    assert config_check(values(data={"share": 0.5}), tmp_path).digest != config_check(values(), tmp_path).digest


def test_rated_pairs_shrink_by_context(tmp_path: Path) -> None:
    rows = [
        {
            "context": [f"question {k // 2}"],
            "output": f"a {k}",
            "reference": f"b {k}",
            "s_output": 1 + k % 5,
            "s_reference": 3,
        }
        for k in range(60)
    ]
    for number in range(len(rows) - 1, -1, -1):  # each row is followed by its mirrored one
        row = rows[number]
        mirrored = {"output": row["reference"], "reference": row["output"]}
        scores = {"s_output": row["s_reference"], "s_reference": row["s_output"]}
        rows.insert(number + 1, {**row, **mirrored, **scores})
    (tmp_path / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = config_check({"name": "r", "metric": "rade", "options": {"rated": ["rated.jsonl"]}}, tmp_path)
    assert plain.digest == "05d4f1d1b66cad7a", (
        "as before max_pairs and shares, or earlier trainings could not be resumed"
    )
    contexts = {}
    for share in (1, 0.5, 0.25):
        options = {"rated": ["rated.jsonl"], "members": 1, "hidden": 4, "axes": 0}
        config = config_check({"name": "r", "metric": "rade", "options": options, "data": {"share": share}}, tmp_path)
        prepared = learned_get("rade").prepare(config, Splits((), (), (), ""), "cpu")
        contexts[share] = {pair.context for pair in prepared.train.pairs}
        held_out = [pair.context for pair in prepared.test.pairs]
        assert not contexts[share] & set(held_out)
        assert len(prepared.train.pairs) == 2 * len(contexts[share]), "all pairs of a context"
    assert contexts[0.25] < contexts[0.5] < contexts[1]
    assert len(contexts[0.5]) == round(len(contexts[1]) / 2)


def test_a_metric_that_cannot_use_a_part_of_its_data_says_so(tmp_path: Path) -> None:
    paths = {}
    for part in ("train", "validation"):
        (tmp_path / f"{part}.jsonl").write_text("")
        paths[part] = f"{part}.jsonl"
    with pytest.raises(ValuesError, match=r"data.share is 0.5, but entailment cannot use a part"):
        config_check(
            {"name": "e", "metric": "entailment", "options": {"files": paths}, "data": {"share": 0.5}}, tmp_path
        )
