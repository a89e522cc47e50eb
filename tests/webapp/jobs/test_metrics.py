"""Metric results: one row per conversation and identity, null with a reason where undefined."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from django.core.management import CommandError, call_command

from chatbots import Identity
from evaluation.metrics.base import MetricTable
from evaluation.metrics.registry import metric_get, metrics
from evaluation.tables import Column
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversation_values
from webapp.jobs.engine import run_job
from webapp.jobs.models import MetricResult, MetricRun
from webapp.jobs.selectors.analysis_tables import metric_frame, rated_frame
from webapp.jobs.services.fits import metric_run_create
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db
CHEAP = ["words", "length", "question"]


class Odd:
    """Undefined for one conversation and infinite for another."""

    name = "odd"
    title = "Odd"
    version = "1"
    columns = (
        Column("odd_value", "conversation", "Odd", "1", (None, None), "neither", "Odd."),
        Column("odd_turn", "turn", "Odd", "1", (None, None), "neither", "Odd."),
    )

    @property
    def identity(self) -> Identity:
        return Identity(self.name, self.version)

    def unavailable_reason(self) -> str | None:
        return None

    def compute(self, conversations: Any, *, self_play: bool = False, shared: Any = None) -> MetricTable:
        ids = [c.id for c in conversations]
        values = [float(i) for i in range(len(ids))]
        values[:2] = [np.nan, np.inf]
        index = pd.MultiIndex.from_tuples([(i, 1) for i in ids], names=["conversation", "turn"])
        return MetricTable(
            turns=pd.DataFrame({"odd_turn": [np.inf] * len(ids)}, index=index),
            conversations=pd.DataFrame({"odd_value": values}, index=ids),
            reasons={},
        )


@pytest.fixture
def odd() -> Any:
    metric = Odd()
    metrics.add(metric)  # type: ignore[arg-type]
    yield metric
    metrics.discard("odd")


def compute(study: Study, *names: str) -> MetricRun:
    job = metric_run_create(study=study, metrics=names, enqueue=False)
    run_job(job)
    job.refresh_from_db()
    return job


def test_results_are_those_of_the_metric(rated_study: Callable[..., Study]) -> None:
    study = rated_study(n_bots=2, n_each=3)
    job = compute(study, *CHEAP)
    assert (job.state, job.n_done, job.n_total) == ("done", 6, 6)
    conversations = list(conversation_values(Conversation.objects.filter(study=study)))
    frame = metric_frame(study=study).set_index("conversation")
    for name in CHEAP:
        table = metric_get(name).compute(conversations)
        for column in table.conversations.columns:
            found = frame.loc[table.conversations.index, column]
            np.testing.assert_allclose(found, table.conversations[column])
        one = conversations[0]
        result = MetricResult.objects.get(conversation=one.id, metric__name=name)
        for column in table.turns.columns:
            expected = table.turns.loc[one.id][column].reindex(range(len(one.turns)))
            np.testing.assert_allclose(np.array(result.turns[column], dtype=float), expected.to_numpy())


def test_only_what_is_missing_is_computed(rated_study: Callable[..., Study], monkeypatch: pytest.MonkeyPatch) -> None:
    study = rated_study(n_bots=2, n_each=3)
    assert compute(study, "words").n_done == 6
    assert compute(study, "words").n_total == 0
    asked: list[tuple[str, int]] = []
    for name in CHEAP:
        metric = metric_get(name)
        true = metric.compute

        def noted(conversations: Any, *, of: Any = true, name: str = name, **more: Any) -> Any:
            asked.append((name, len(conversations)))
            return of(conversations, **more)

        monkeypatch.setattr(metric, "compute", noted)
    assert compute(study, *CHEAP).n_done == 6
    assert sorted(asked) == [("length", 6), ("question", 6)]
    assert MetricResult.objects.count() == 18


def test_a_new_version_is_computed_anew_and_the_old_kept(rated_study: Callable[..., Study], odd: Odd) -> None:
    study = rated_study(n_bots=1, n_each=3)
    compute(study, "odd")
    odd.version = "2"
    assert compute(study, "odd").n_done == 3
    assert MetricResult.objects.count() == 6


def test_undefined_and_infinite_are_null_with_a_reason(rated_study: Callable[..., Study], odd: Odd) -> None:
    study = rated_study(n_bots=1, n_each=3)
    compute(study, "odd")
    found = list(MetricResult.objects.order_by("conversation__created_at", "conversation_id"))
    values = [result.values["odd_value"] for result in found]
    assert sorted(values, key=str) == [2.0, None, None]
    told = {result.reasons.get("odd_value") for result in found}
    assert told == {None, "the metric is undefined here", "the computation gave an infinite number"}
    assert all(result.turns["odd_turn"] == [None] * 8 for result in found)


def test_conversations_that_may_still_change_or_are_gone_are_not_measured() -> None:
    from tests.builders import make_conversation, make_rating, make_study

    study = make_study("live")
    done = make_conversation(study, n_exchanges=3)
    make_rating(done)
    make_conversation(study, n_exchanges=2)
    assert compute(study, "words").n_done == 1
    assert MetricResult.objects.get().conversation_id == done.pk


def test_frames_leave_out_what_is_scripted(rated_study: Callable[..., Study]) -> None:
    study = rated_study(n_bots=2, n_each=3, dimensions=("quality", "fun"))
    compute(study, *CHEAP)
    one = Conversation.objects.filter(study=study).first()
    assert one is not None
    Conversation.objects.filter(pk=one.pk).update(is_synthetic=True)
    assert len(metric_frame(study=study)) == 5
    ratings = study_ratings(study, exclude_bots=["bot1"])
    assert list(ratings.answers) == ["quality", "fun"]
    table = rated_frame(ratings, study=study)
    assert set(table["bot"]) <= {"bot0"}
    assert table["participant"].notna().all()
    everything = study_ratings(study, include_synthetic=True)
    assert len(rated_frame(everything, study=study, include_synthetic=True)) == 6


def test_the_command(rated_study: Callable[..., Study]) -> None:
    rated_study("k", n_bots=2, n_each=2)
    out = StringIO()
    call_command("compute_metrics", "--study", "k", "--metrics", "words,length", "--inline", "--json", stdout=out)
    found = json.loads(out.getvalue())
    assert set(found) == {"conversations", "metrics", "seconds"}
    assert (found["conversations"], found["metrics"]) == (4, ["words", "length"])
    for args, told in (
        (["--study", "kk"], "there is no study 'kk'"),
        (["--run", "99"], "there is no self-play run 99; there is none yet"),
        (["--study", "k", "--metrics", "word"], "did you mean word_coherence"),
    ):
        with pytest.raises(CommandError, match=told) as error:
            call_command("compute_metrics", *args, "--inline", stderr=StringIO())
        assert error.value.returncode == 1
