"""What lies behind a score: keywords, premises, neighbours and parts, each compared with the metric's own values."""

import math
from pathlib import Path

import numpy as np
import pytest

from evaluation.agreement.reply_scores import explain_reply
from evaluation.data.items import JudgedItem, ReplyInContext
from evaluation.metrics.entailment import Entailment
from evaluation.metrics.grade import Grade
from evaluation.metrics.rade import Rade
from evaluation.metrics.registry import metric_get
from evaluation.metrics.ruber import Pone
from evaluation.metrics.text_cache import TextCache
from tests.evaluation.training.checkpoints import entailment_checkpoint, pone_checkpoint, rade_checkpoint
from tests.evaluation.training.grade_builders import checkpoint_made

CONTEXT = ("I drink coffee with my dog.", "And which animal do you like?")
REPLY = ReplyInContext(CONTEXT, "I like my cat.", "A cat.")


def numbers(table, column: int) -> list[float]:
    return [row[column].raw[0] for row in table.table.rows]


def texts(table, column: int) -> list[str]:
    return [row[column].text for row in table.table.rows]


def test_grade_shows_its_keywords_and_the_hops_between_them(tmp_path: Path) -> None:
    metric = Grade(checkpoint=str(checkpoint_made(tmp_path)))
    reply = ReplyInContext(("I drink water.", "My cat is here."), "It is a good animal.")
    explanation = metric.explain(reply, [], TextCache())
    graph = explanation.graph
    assert graph.reply == ("animal",)
    hops = dict(zip(graph.context, graph.hops, strict=True))
    assert hops["cat"] == (2,), "neighbours in the graph"
    assert hops["water"] == (graph.far,), "edges have a direction: none leads from water to the animal"
    [table] = explanation.tables
    assert texts(table, 0) == [*graph.context, "animal"]
    assert numbers(table, 3)[-1] == 2
    assert numbers(table, 3)[graph.context.index("water")] is None
    without = metric.explain(ReplyInContext(CONTEXT, "When is it?"), [], TextCache())
    assert without.graph is None
    assert "no keyword" in without.tables[0].note
    assert metric.explain(ReplyInContext((), "I like my cat."), [], TextCache()) is None


def test_entailment_gives_a_class_for_each_previous_turn(tmp_path: Path) -> None:
    metric = Entailment(checkpoint=str(entailment_checkpoint(tmp_path)), window=2)
    [table] = metric.explain(REPLY, [], TextCache()).tables
    assert texts(table, 1) == [" ".join(CONTEXT), CONTEXT[1], CONTEXT[0]]
    last = Entailment(checkpoint=str(tmp_path), utterance=-1).scored([REPLY], TextCache())
    whole = metric.scored([REPLY], TextCache())
    for column, name in ((3, "entailment"), (4, "neutral"), (5, "contradiction")):
        assert numbers(table, column)[0] == pytest.approx(whole[f"entailment_{name}_bot"][0], abs=1e-6)
        assert numbers(table, column)[1] == pytest.approx(last[f"entailment_{name}_bot"][0], abs=1e-6)
    classes = ("contradiction", "neutral", "entailment")
    assert texts(table, 2)[0] == classes[int(whole["entailment_class_bot"][0])]


@pytest.mark.parametrize("sentences", ["frozen", "recurrent"])
def test_pone_shows_similar_replies_with_their_chance_and_score(tmp_path: Path, sentences: str) -> None:
    metric = Pone(checkpoint=str(pone_checkpoint(tmp_path, sentences=sentences, temperature=0.1)))
    answers = ["I like my cat a lot.", "No.", "My dog is here.", "I like my cat.", "Rain today.", "Yes?", "We ate."]
    others = [ReplyInContext(("hi",), text) for text in answers]
    [table] = metric.explain(REPLY, others, TextCache()).tables
    shown = texts(table, 0)
    assert shown[0] == REPLY.response
    assert len(shown) == 6
    assert REPLY.response not in shown[1:]
    cosines, chances, scores = (numbers(table, k) for k in (1, 2, 3))
    assert cosines[1:] == sorted(cosines[1:], reverse=True)
    assert math.log(chances[1] / chances[2]) == pytest.approx((cosines[1] - cosines[2]) / 0.1)
    assert sum(chances[1:]) <= 1
    alone = metric.scored([REPLY._replace(response=text) for text in shown], TextCache())["pone_bot"]
    np.testing.assert_allclose(scores, alone, atol=1e-6)


def test_rade_shows_both_scores_and_the_reference(tmp_path: Path) -> None:
    metric = Rade(checkpoint=str(rade_checkpoint(tmp_path)))
    [table] = metric.explain(REPLY, [], TextCache()).tables
    scored = metric.scored([REPLY], TextCache())
    assert numbers(table, 3) == pytest.approx([scored["rade_bot"][0], scored["rade_reference"][0]])
    assert texts(table, 1) == [REPLY.response, REPLY.reference]
    assert texts(table, 2) == ["", "a person"]
    assert metric.explain(REPLY._replace(reference=None), [], TextCache()) is None


def test_other_metrics_and_blank_replies_have_no_explanation() -> None:
    item = JudgedItem(id="1", context=CONTEXT, response="Hi", ratings=({"good": 1},))
    assert explain_reply(metric_get("bleu"), item, [item], TextCache()) is None
    blank = item.model_copy(update={"response": " "})
    assert explain_reply(metric_get("entailment_lite"), blank, [blank], TextCache()) is None
