"""RADE trained on a few rated pairs, lite and full, in two stages, and the metric that its checkpoint gives."""

import json
import math

import numpy as np
import pytest
from safetensors.torch import load_file

from chatbots.corpora.dialogues import EVERYDAY, Dialogue, corpus_read
from chatbots.validation import ValuesError
from evaluation.data.items import ReplyInContext, judged_read
from evaluation.metrics.rade import Rade
from evaluation.metrics.text_cache import TextCache
from evaluation.models.rade_inputs import RetrievedReferences
from evaluation.training.config import config_check
from evaluation.training.contract import Splits
from evaluation.training.loop import train
from evaluation.training.metrics.rade import RadeTraining, parted
from evaluation.training.rade_data import (
    NO_REFERENCE_SCORE,
    OTHER_SCALE,
    UNPAIRED,
    UNREADABLE,
    RatedPair,
    context_key,
    grouped_folds,
    judged_lines,
    leaking_folds,
    rated_pairs_of,
    rated_pairs_read,
)
from tests.tiny_models import save_model
from tests.validation.rated_folds import folds_measured

NO_DIALOGUES = Splits((), (), (), "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write 40 pairs to 20 contexts; longer replies have the better scores."""
    place = tmp_path_factory.mktemp("rade")
    turns = [t for dialogue in corpus_read(EVERYDAY).dialogues[:12] for t in dialogue.turns][:60]
    rng = np.random.default_rng(0)
    with (place / "rated.jsonl").open("w") as file, (place / "unscored.jsonl").open("w") as more:
        for k in range(40):
            said, other = rng.choice(turns, size=2, replace=False).tolist()
            row = {
                "context": turns[2 * (k % 20) : 2 * (k % 20) + 2],
                "output": said,
                "reference": other,
                "s_output": min(5, 1 + len(said.split()) / 4),
                "s_reference": min(5, 1 + len(other.split()) / 4),
            }
            file.write(json.dumps(row) + "\n")
            other = {
                "context": row["context"],
                "response": said,
                "reference": row["reference"],
                "ratings": [{"overall": row["s_output"]}],
            }
            more.write(json.dumps(other) + "\n")
    save_model(place / "bart", "bart", width=16, n_layers=1)
    return place


def values(name="rade-tiny", **options):
    return {
        "name": name,
        "metric": "rade",
        "options": {"rated": ["rated.jsonl"], "hidden": 8, "members": 2, "axes": 4, "folds": 4,
                    "chosen_by": "error", **options},
        "optimiser": {"batch_size": 16, "lr": 0.01, "epochs": 12, "schedule": "constant"},
    }  # fmt: skip


@pytest.fixture(scope="module")
def lite(folder):
    return train(config_check(values(), folder), folder / "metrics" / "rade-tiny")


def losses(place):
    documents = [json.loads(line) for line in (place / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in documents if line["kind"] == "train"]


def test_parts_share_no_context(folder):
    prepared = RadeTraining().prepare(config_check(values(), folder), NO_DIALOGUES, "cpu")
    parts = [prepared.train, prepared.validation, prepared.test]
    contexts = [{context_key(pair) for pair in part.pairs} for part in parts]
    assert sum(part.n for part in parts) == 40
    assert sum(map(len, contexts)) == len(set.union(*contexts)) == 20
    nothing_kept = config_check(values(fold=-1), folder)
    assert RadeTraining().prepare(nothing_kept, NO_DIALOGUES, "cpu").test is None
    leaks = parted([*prepared.train.pairs] * 2, config_check(values(split="rows"), folder).metric_options)
    assert set(leaks["test"]) & set(leaks["train"])


def test_the_lite_network_learns_and_is_measured(folder, lite):
    told = losses(folder / "metrics" / "rade-tiny")
    assert np.mean(told[-3:]) < 0.8 * np.mean(told[:3])
    assert {"test_pearson", "test_spearman", "test_kendall", "test_squared_error"} <= set(lite.best)
    assert lite.best["test_pearson"] > 0.3


def test_without_validation_all_other_contexts_are_learnt_from_and_the_last_weights_are_kept(folder):
    config = config_check(values("all", held_out=0), folder)
    prepared = RadeTraining().prepare(config, NO_DIALOGUES, "cpu")
    assert prepared.validation is None
    assert prepared.train.n + prepared.test.n == 40
    result = train(config, folder / "metrics" / "all")
    assert result.best["step"] == 12 * prepared.train.n_batches(16)  # the last of 12 epochs
    assert "validation_loss" not in result.best
    assert math.isfinite(result.best["test_pearson"])
    log = (folder / "metrics" / "all" / "log.jsonl").read_text()
    assert '"kind": "validation"' not in log
    file = load_file(result.checkpoint / "model.safetensors")
    last = load_file(folder / "metrics" / "all" / "state.safetensors")
    assert file["out"].equal(last["model.out"])
    patient = {**values(held_out=0), "optimiser": {"batch_size": 16, "patience": 2}}
    with pytest.raises(ValuesError, match=r"optimiser.patience must be 0"):
        config_check(patient, folder)


def test_the_share_held_out_is_of_contexts(folder):
    for share, n in ((0.5, 8), (0.25, 4), (0.125, 2)):  # of 16 contexts beside the fold
        config = config_check(values(held_out=share), folder)
        validation = RadeTraining().prepare(config, NO_DIALOGUES, "cpu").validation
        assert abs(len({context_key(pair) for pair in validation.pairs}) - n) <= 1


def test_its_checkpoint_is_a_metric_that_needs_a_reference(folder, lite):
    metric = Rade("mine", checkpoint=str(lite.checkpoint))
    assert metric.licence == "of the training data: not stated"
    assert "a reference" in metric.needs
    few, many = "Yes.", "Yes, we went there in the summer and we liked it very much, all of us."
    replies = [
        ReplyInContext(("Were you there?",), few, "I was."),
        ReplyInContext(("Were you there?",), many, "I was."),
        ReplyInContext(("Were you there?",), many),
        ReplyInContext((), many, "I was."),
    ]
    result = metric.scored(replies, TextCache())
    assert result["mine_bot"][0] < result["mine_bot"][1]
    assert np.isnan(result["mine_bot"][2:]).all()
    assert metric.lacking(replies[2]) == "there is no reference"
    rade = Rade("made", checkpoint=str(lite.checkpoint), references="retrieved")
    assert "a reference" not in rade.needs
    assert "Needs a reference" not in rade.columns[0].description
    assert metric.identity != rade.identity
    other = rade.scored(replies, TextCache())
    assert np.isfinite(other["made_bot"][:3]).all()
    assert other["made_bot"][1] == pytest.approx(result["mine_bot"][1])  # a person's reference comes first
    retrieved = {"checkpoint": str(lite.checkpoint), "references": "retrieved"}
    lines = (folder / "rated.jsonl").read_text().splitlines()[:2]
    told = [json.dumps({"turns": json.loads(line)["context"]}) + "\n" for line in lines]
    identities = []
    for place, text in (("a", told[0]), ("b", told[0]), ("a", "".join(told))):
        (folder / f"{place}.jsonl").write_text(text)
        identities.append(Rade("own", corpus=str(folder / f"{place}.jsonl"), **retrieved).identity)
    assert identities[0] == identities[1] != identities[2]  # by what it holds, not where it lies
    said = Rade("said", checkpoint=str(lite.checkpoint), references="generated", bot="parrot")
    assert np.isfinite(said.scored(replies[2:3], TextCache())["said_bot"]).all()
    with pytest.raises(ValuesError, match="bot is required"):
        Rade("none", checkpoint=str(lite.checkpoint), references="generated")


def test_both_stages_of_the_full_network_learn(folder):
    backbone = {"model": str(folder / "bart"), "learns": "all", "max_tokens": 128}
    optimiser = {"batch_size": 16, "lr": 5e-3, "epochs": 2, "schedule": "constant"}
    for name, stage, start in (("first", 1, ""), ("second", 2, "first")):
        rated = ["unscored.jsonl" if stage == 1 else "rated.jsonl"]
        own = {"stage": stage, "rated": rated, "dropout": 0.0, "chosen_by": "correlation"}
        config = config_check(
            {
                **values(name, network="full", **own),
                "backbone": backbone, "optimiser": optimiser, "start": start,
            },
            folder,
        )  # fmt: skip
        result = train(config, folder / "metrics" / name)
        log = (folder / "metrics" / name / "log.jsonl").read_text()
        assert ("mse_h" in log) == ("ranking" in log) == (stage == 2)
        assert "generation" in log
        told = losses(folder / "metrics" / name)
        half = len(told) // 2
        assert half
        assert np.mean(told[-half:]) < 0.95 * np.mean(told[:half]), told
    metric = Rade("full", checkpoint=str(result.checkpoint))
    results = metric.scored([ReplyInContext(("hello",), "i am fine", "cats")], TextCache())
    assert np.isfinite([*results["full_bot"], *results["full_reference"]]).all()


def test_the_lite_network_begins_without_scores_of_references(folder):
    config = config_check(values("lite-first", rated=["unscored.jsonl"], stage=1), folder)
    result = train(config, folder / "metrics" / "lite-first")
    assert result.best["test_pearson"] > 0.3
    told = losses(folder / "metrics" / "lite-first")
    assert told[-1] < told[0]
    metric = Rade("first", checkpoint=str(result.checkpoint))
    made = metric.scored([ReplyInContext(("hello",), "i am fine", "cats")], TextCache())
    assert np.isfinite(made["first_bot"]).all()
    with pytest.raises(ValueError, match="no reference has a score"):
        train(config_check(values("no", rated=["unscored.jsonl"]), folder), folder / "metrics" / "no")


def test_options_that_cannot_be_are_told(folder):
    with pytest.raises(ValuesError, match=r"other.jsonl does not exist"):
        config_check(values(rated=["other.jsonl"]), folder)
    with pytest.raises(ValuesError, match="below the number of folds, 4"):
        config_check(values(fold=4), folder)
    with pytest.raises(ValuesError, match="takes no corpora"):
        config_check({**values(), "data": {"corpora": [{"path": "everyday"}]}}, folder)
    with pytest.raises(ValuesError, match="give at least one corpus"):
        config_check({"name": "x", "metric": "pone"}, folder)


def test_folds_score_every_pair_once_for_each_seed(folder):
    brief = {**values(folds=2), "optimiser": {"batch_size": 64, "lr": 0.02, "epochs": 2}}
    result = folds_measured(brief, folder, seeds=(1,))
    assert result.n == 40
    assert result.r["pearson"] == (result.mean(),)
    assert np.isnan(result.spread())
    assert result.ci95[0] < result.ci95[1]


def test_retrieved_references_answer_the_context_most_alike_and_never_repeat_the_response():
    corpus = [
        Dialogue(("Do you like tea?", "With milk.")),
        Dialogue(("Do you like green tea?", "No, black.")),
        Dialogue(("Where is the station?", "Over there.")),
    ]
    asked = ("Well.", "Do you like tea")
    replies = [
        ReplyInContext(asked, "Coffee."),
        ReplyInContext(asked, "with  milk."),
        ReplyInContext(("Where is the station?",), "No idea."),
    ]
    assert RetrievedReferences(corpus).find(replies) == ["With milk.", "No, black.", "Over there."]
    result = RetrievedReferences(corpus, "responses").find([ReplyInContext(("Over the hills?",), "Yes.")])
    assert result == ["Over there."]
    with pytest.raises(ValueError, match="no utterance that replies"):
        RetrievedReferences([Dialogue(("Alone.",))])


def test_scores_are_of_the_network_alone(lite):
    """A batch gives what its rows give alone: nothing is standardised over what is scored."""
    metric = Rade("mine", checkpoint=str(lite.checkpoint))
    replies = [ReplyInContext(("Hi.",), text, "Hello.") for text in ("Yes.", "Go on then, tell me.")]
    both = metric.scored(replies, TextCache())["mine_bot"]
    alone = metric.scored(replies[1:], TextCache())["mine_bot"]
    assert both[1] == pytest.approx(alone[0], abs=1e-5)


FIRST = RatedPair(("Hi.", "Hello!"), "How are you?", "Nice day.", 2.0, 4.0)
SECOND = RatedPair(("Hi.", "Hello!"), "Bye.", "Nice day.", 1.0, 4.0)
OTHER = RatedPair(("Do you ski?",), "I do.", "Never.", 3.0, 5.0)


def both(*pairs):
    return [row for pair in pairs for row in (pair, pair.mirrored)]


def test_the_first_of_two_mirrored_rows_has_the_system_s_response():
    result = rated_pairs_of(both(FIRST, SECOND, OTHER))
    assert result.pairs == (FIRST, SECOND, OTHER)
    assert len(result.rows) == 6
    assert result.counts() == {
        "rows": 6, "pairs": 3, "contexts": 2, "repeated": 0, "conflicting": 0, "same_text": 0, "skipped": {},
    }  # fmt: skip


def test_rows_without_any_mirror_are_system_responses_but_a_lone_one_among_mirrored_is_left_out():
    assert rated_pairs_of([FIRST, OTHER]).pairs == (FIRST, OTHER)
    result = rated_pairs_of([*both(FIRST), OTHER])
    assert result.pairs == (FIRST,)
    assert result.skipped == {UNPAIRED: 1}


def test_a_pair_told_thrice_counts_once_with_the_mean_of_its_two_different_scores():
    again = RatedPair(FIRST.context, "how are  you ?", FIRST.reference, 3.0, 4.5)
    result = rated_pairs_of(both(FIRST, OTHER, FIRST, again))
    assert result.pairs == (RatedPair(FIRST.context, "How are you?", "Nice day.", 2.5, 4.25), OTHER)
    assert (result.repeated, result.conflicting) == (2, 1)


def test_equal_texts_and_scores_beyond_the_scale_are_counted():
    same = RatedPair(("Hi.",), "Bye.", "bye.", 2.0, 3.0)
    beyond = RatedPair(("Hi.",), "Bye.", "Yes.", 6.0, 3.0)
    result = rated_pairs_of(both(same, beyond))
    assert result.same_text == 1
    assert result.skipped == {OTHER_SCALE: 2}


def test_both_forms_of_a_file_give_the_same_pairs(tmp_path):
    release = {
        "context": ["I ' m here .", "", "Hello !"],
        "output": "Do n't go .",
        "reference": "Stay .",
        "s_output": 2,
        "s_reference": 4.5,
    }
    judged = {
        "id": "1",
        "context": release["context"],
        "response": release["output"],
        "reference": "Stay .",
        "ratings": [{"rater": "a", "overall": 1}, {"rater": "b", "overall": 3}],
        "reference_rating": 4.5,
    }
    for name, line in (("release", release), ("judged", judged)):
        (tmp_path / name).write_text(f"{json.dumps(line)}\n[]\n{{}}\n")
        result = rated_pairs_read(tmp_path / name)
        assert result.pairs == (RatedPair(("I'm here.", "Hello!"), "Don't go.", "Stay.", 2, 4.5),)
        assert result.skipped == {UNREADABLE: 2}


def test_scores_of_several_qualities_and_scales_are_averaged_on_1_to_5(tmp_path):
    """As the first stage's data has them, whose references nobody scored."""
    row = {
        "id": 7, "context": ["Hi."], "response": "Bye.", "reference": "Hello.", "scale": [0, 2],
        "ratings": [{"rater": "a", "fit": 2, "fun": 0}, {"rater": "b", "fit": 1, "fun": 0}],
    }  # fmt: skip
    scored = {**row, "context": ["Yo."], "reference_score": 1}
    beyond = {**row, "ratings": [{"fit": 3}], "reference_score": 1}
    (tmp_path / "a").write_text("\n".join(map(json.dumps, (row, scored, beyond))))
    first = rated_pairs_read(tmp_path / "a", reference_scores=False)
    # fit: 1.5 of 0 … 2 is 4; fun: 0 is 1
    assert [pair.score for pair in first.pairs] == [2.5, 2.5]
    assert [pair.reference_score for pair in first.pairs] == [None, 3]
    second = rated_pairs_read(tmp_path / "a")
    assert [pair.context for pair in second.pairs] == [("Yo.",)]
    assert second.skipped == {NO_REFERENCE_SCORE: 1, OTHER_SCALE: 1}
    (tmp_path / "b").write_text(json.dumps(row))
    with pytest.raises(ValueError, match="only `stage: 1` needs none"):
        rated_pairs_read(tmp_path / "b")


def test_a_file_without_pairs_says_what_is_wrong(tmp_path):
    (tmp_path / "a").write_text('{"context": ["Hi"], "output": "", "reference": "x", "s_output": 1}')
    with pytest.raises(ValueError, match=r"has no rated pairs; line 1: .*response is ''"):
        rated_pairs_read(tmp_path / "a")


def test_folds_keep_a_context_together_and_differ_by_seed():
    pairs = [RatedPair((f"context {k // 3}",), f"reply {k}", "other", 2.0, 3.0) for k in range(30)]
    folds = grouped_folds(pairs, 5, seed=1)
    assert sorted(set(folds)) == [0, 1, 2, 3, 4]
    by_context = {}
    for pair, fold in zip(pairs, folds, strict=True):
        by_context.setdefault(context_key(pair), set()).add(fold)
    assert all(len(result) == 1 for result in by_context.values())
    assert (np.bincount(folds) == 6).all()
    assert (folds == grouped_folds(pairs, 5, seed=1)).all()
    assert (folds != grouped_folds(pairs, 5, seed=2)).any()
    with pytest.raises(ValueError, match="10 contexts cannot be split into 11 folds"):
        grouped_folds(pairs, 11, seed=1)


def test_a_random_split_of_rows_leaks():
    rows = both(*(RatedPair((f"context {k}",), "a", "b", 2.0, 3.0) for k in range(20)))
    folds = leaking_folds(rows, 5, seed=1)
    assert (np.bincount(folds) == 8).all()
    assert (folds[0::2] != folds[1::2]).any()  # a pair's mirrored copy is in training


def test_pairs_are_judged_items_again(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(judged_lines([FIRST, OTHER], "rade/x")))
    assert rated_pairs_read(tmp_path / "a.jsonl").pairs == (FIRST, OTHER)
    first, other = judged_read(tmp_path / "a.jsonl")
    assert first.reply == FIRST.reply
    assert other.scores("overall") == ([("mean", 3.0)], 0)
