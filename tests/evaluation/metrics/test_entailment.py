"""The metric `entailment` by checkpoints with random weights, and its classes beside people's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from chatbots.conversation import Conversation
from chatbots.encoders.sentence import sentence_encoder
from chatbots.validation import ValuesError
from evaluation.entailment_classes import HumanClasses, class_of, class_report, human_classes
from evaluation.items import JudgedItem, ReplyInContext
from evaluation.metrics.entailment import TOO_SHORT, Entailment
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache
from evaluation.training.inference_pairs import LABELS
from tests.evaluation.training.checkpoints import entailment_checkpoint
from tests.tiny_models import save_classifier

ASKED = ReplyInContext(("Old news.", "Do you like tea?"), "Yes, with milk.")
ALONE = ReplyInContext(("Do you like tea?",), "Yes, with milk.")
OPENS = ReplyInContext((), "Hello.")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return str(entailment_checkpoint(tmp_path_factory.mktemp("entailment") / "lite"))


def by_hand(metric, premise, reply):
    u, v = sentence_encoder().encode([premise, reply])
    network = metric.restored("cpu")
    features = np.concatenate([u, v, abs(u - v), u * v]).astype(np.float32)
    with torch.no_grad():
        return dict(zip(LABELS, network.out(torch.from_numpy(features)).softmax(0).tolist(), strict=True))


def test_probabilities_their_class_and_one_number(checkpoint):
    metric = Entailment("mine", checkpoint=checkpoint)
    assert metric.unavailable_reason() is None
    assert metric.licence == "of the training text: MIT"
    found = metric.scored([ASKED, OPENS], TextCache())
    wanted = by_hand(metric, "Old news. Do you like tea?", ASKED.response)
    for name in LABELS:
        assert found[f"mine_{name}_bot"][0] == pytest.approx(wanted[name], abs=1e-5)
    assert found["mine_bot"][0] == found["mine_entailment_bot"][0]
    order = ["contradiction", "neutral", "entailment"]
    assert order[int(found["mine_class_bot"][0])] == max(wanted, key=wanted.get)
    assert all(np.isnan(values[1]) for values in found.values())
    difference = Entailment("mine", checkpoint=checkpoint, value="difference")
    assert difference.scored([ASKED], TextCache())["mine_bot"][0] == pytest.approx(
        wanted["entailment"] - wanted["contradiction"], abs=1e-5
    )
    assert difference.identity.key != metric.identity.key


def test_the_premise_may_be_a_single_utterance_which_must_be_there(checkpoint):
    last, second = (Entailment(checkpoint=checkpoint, utterance=k) for k in (-1, -2))
    found = last.scored([ASKED, ALONE], TextCache())["entailment_bot"]
    assert (
        found[0] == found[1] == pytest.approx(by_hand(last, "Do you like tea?", ASKED.response)["entailment"], abs=1e-5)
    )
    found = second.scored([ASKED, ALONE], TextCache())["entailment_bot"]
    assert found[0] == pytest.approx(by_hand(second, "Old news.", ASKED.response)["entailment"], abs=1e-5)
    assert np.isnan(found[1])
    assert second.lacking(ALONE) == TOO_SHORT
    table = second.compute([Conversation.from_texts(["Hi.", "Hello."], id="1")])
    assert TOO_SHORT in table.reasons["entailment_bot"]
    newest = Entailment(checkpoint=checkpoint, window=1)
    np.testing.assert_array_equal(
        newest.scored([ASKED], TextCache())["entailment_bot"], last.scored([ASKED], TextCache())["entailment_bot"]
    )
    with pytest.raises(ValuesError, match="utterance"):
        Entailment(checkpoint=checkpoint, utterance=1)


@pytest.mark.parametrize("network", ["bert", "esim"])
def test_networks_that_read_texts_give_each_reply_its_own(network, tmp_path):
    model = str(save_classifier(tmp_path / "model"))
    options = {"network": network, "hidden": 4}
    metric = Entailment(checkpoint=str(entailment_checkpoint(tmp_path / network, model=model, **options)))
    replies = [ReplyInContext(("hello how are you",), f"i am fine {'yes ' * k}") for k in range(1, 5)]
    found = metric.scored(replies[::-1], TextCache())["entailment_bot"][::-1]
    alone = [metric.scored([one], TextCache())["entailment_bot"][0] for one in replies]
    np.testing.assert_allclose(found, alone, atol=1e-4)
    assert len(set(found.tolist())) == 4


def test_a_baseline_of_the_reply_alone_does_not_see_the_premise(tmp_path):
    place = str(entailment_checkpoint(tmp_path / "lite", hypothesis_only=True))
    found = Entailment(checkpoint=place).scored([ALONE, ReplyInContext(("What?",), ALONE.response)], TextCache())[
        "entailment_bot"
    ]
    assert found[0] == found[1]


def item(*grades, scale=(0, 3)):
    return JudgedItem(id=str(grades), response="x", ratings=[{"overall": one} for one in grades], scale=scale)


def test_ratings_make_classes_by_their_mean_or_by_most_votes():
    items = [item(2, 2), item(1, 3, 1), item(0, 1), item(0, 0, 3, 3), item(3, 2, 1, 0), item()]
    found = human_classes(items, "overall")
    np.testing.assert_array_equal(found.classes, [2, 1, 0, 1, 1, np.nan])
    assert found.n_ties == 0
    found = human_classes(items, "overall", "majority")
    # Of 0 and 1, of 0 and 3, and of all four, each given as often, the lower one counts.
    np.testing.assert_array_equal(found.classes, [2, 1, 0, 0, 0, np.nan])
    assert found.n_ties == 3
    assert [class_of(value, 1, 5) for value in (1, 2.3, 2.4, 3.6, 3.7, 5)] == [0, 0, 1, 1, 2, 2]
    assert [class_of(value, 0, 3) for value in (0.99, 1, 1.99, 2)] == [0, 1, 1, 2]
    assert np.isnan(human_classes([item(1, scale=None)], "overall").classes).all()


def test_predicted_classes_beside_peoples():
    predicted = np.array([2, 2, 2, 1, 1, 0, np.nan])
    means = np.array([3.0, 2.5, 1.0, 1.5, 0.5, 0.0, 3.0])
    people = HumanClasses(np.array([2.0, 2, 1, 1, 0, 0, 2]), means)
    found = class_report(predicted, people)
    assert found.accuracy == pytest.approx(4 / 6)
    assert found.majority == pytest.approx(2 / 6)
    assert found.by_class == {"contradiction": 0.5, "neutral": 0.5, "entailment": 1.0}
    assert found.n == {"contradiction": 1, "neutral": 2, "entailment": 3}
    assert found.means["entailment"] == pytest.approx(6.5 / 3)
    test = stats.ttest_ind([3.0, 2.5, 1.0], [1.5, 0.5], equal_var=False)
    told = found.tests["entailment", "neutral"]
    assert told is not None
    assert told.p == pytest.approx(test.pvalue)
    assert found.tests["neutral", "contradiction"] is None
    assert found.to_json()["tests"]["entailment - contradiction"] is None
    nothing = class_report(np.full(2, np.nan), HumanClasses(np.zeros(2), np.zeros(2)))
    assert nothing.to_json()["accuracy"] is None


def test_what_comes_with_confab_is_small_and_of_permissive_text():
    metric = metric_get("entailment_lite")
    assert metric.unavailable_reason() is None
    assert metric.licence == "of the training text: CDLA-Sharing-1.0"
    manifest = metric.checkpoint.manifest
    assert manifest.weights_bytes < 20_000
    assert manifest.metrics["test_accuracy"] > manifest.metrics["test_majority"] + 0.1
    context = ("What do you do at weekends?", "I love to watch football.")
    replies = ["Football is fun! Which team do you like?", "I have no idea.", "which team soup the needs at"]
    found = metric.scored([ReplyInContext(context, one) for one in replies], TextCache())
    assert found["entailment_lite_class_bot"][1:].tolist() == [1, 0]
    assert found["entailment_lite_bot"].argmax() == 0
