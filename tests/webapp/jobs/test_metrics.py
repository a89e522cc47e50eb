"""Metric results: one row per conversation and identity, null with a reason; languages; `metrics.yaml`."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.test import Client

from chatbots import Identity
from chatbots.registry import UnknownName
from evaluation.data.tables import Column
from evaluation.metrics.base import MetricTable
from evaluation.metrics.registry import configured_metrics, metric_get, metrics
from tests.builders import exchange, make_conversation, make_rating, make_staff, make_study
from tests.evaluation.simulation.test_selfplay import GERMAN, SPANISH
from tests.markup import flat
from webapp.conversations.models import Conversation
from webapp.conversations.selectors import conversation_values
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import HybridFit, MetricResult, MetricRun
from webapp.jobs.selectors.analysis_tables import metric_frame, rated_frame
from webapp.jobs.selectors.fits import features_held
from webapp.jobs.selectors.metrics import language_sentences, left_out_sentences, metrics_find, metrics_left_out
from webapp.jobs.services.fits import metric_run_create
from webapp.ratings.selectors import study_ratings
from webapp.studies.models import Study
from webapp.transfer.import_file import import_conversations

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
            results = frame.loc[table.conversations.index, column]
            np.testing.assert_allclose(results, table.conversations[column])
        conversation = conversations[0]
        result = MetricResult.objects.get(conversation=conversation.id, metric__name=name)
        for column in table.turns.columns:
            expected = table.turns.loc[conversation.id][column].reindex(range(len(conversation.turns)))
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
    results = list(MetricResult.objects.order_by("conversation__created_at", "conversation_id"))
    values = [result.values["odd_value"] for result in results]
    assert sorted(values, key=str) == [2.0, None, None]
    told = {result.reasons.get("odd_value") for result in results}
    assert told == {None, "the metric is undefined here", "the computation returned an infinite number"}
    assert all(result.turns["odd_turn"] == [None] * 8 for result in results)


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
    conversation = Conversation.objects.filter(study=study).first()
    Conversation.objects.filter(pk=conversation.pk).update(is_synthetic=True)
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
    document = json.loads(out.getvalue())
    assert set(document) == {"conversations", "metrics", "seconds"}
    assert (document["conversations"], document["metrics"]) == (4, ["words", "length"])
    for args, told in (
        (["--study", "kk"], "there is no study 'kk'"),
        (["--run", "99"], "there is no self-play run 99; there are none yet"),
        (["--study", "k", "--metrics", "word"], "did you mean word_coherence"),
    ):
        with pytest.raises(CommandError, match=told) as error:
            call_command("compute_metrics", *args, "--inline", stderr=StringIO())
        assert error.value.returncode == 1


ENGLISH = ["Hello, how was your day?", "Fine, thanks. I took the dog to the park and then it rained."]


def study_of(folder: Path, *talks: list[str]) -> Study:
    """Make an imported study of these conversations."""
    path = folder / "talks.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, texts in enumerate(talks):
            turns = [{"speaker": ("human", "bot")[i % 2], "text": text} for i, text in enumerate(texts)]
            record = {"dialogue_id": str(number), "bot": "b", "turns": turns}
            file.write(json.dumps({**record, "ratings": [{"rater": "r", "quality": 3}]}) + "\n")
    import_conversations(path, study_key="talks", scale=(1, 7))
    return Study.objects.get(key="talks")


def compute_all(*metrics: str, study: str = "talks") -> str:
    """Return what `compute_metrics` tells on standard error."""
    err = StringIO()
    where = ("--study", study, "--metrics", ",".join(metrics), "--inline", "--json")
    call_command("compute_metrics", *where, stdout=StringIO(), stderr=err)
    return err.getvalue()


@pytest.mark.django_db
def test_imported_conversations_are_told_by_their_words(tmp_path: Path, admin_client: Client) -> None:
    study = study_of(tmp_path, GERMAN, GERMAN, SPANISH, ENGLISH, ["ok"])
    result = compute_all("question", "votes", "vader")
    assert "Not computed for 3 conversations in German and Spanish" in result
    assert "are valid for English only: Question score, Sentiment by VADER." in result
    results = {one.metric.name: one for one in metrics_left_out(study=study)}
    assert set(results) == {"question", "vader"}
    assert all(result.n == {"de": 2, "es": 1} for result in results.values())
    assert not any(result.is_whole for result in results.values())
    rows = MetricResult.objects.filter(metric__name="question").order_by("pk")
    assert [row.language for row in rows] == ["de", "de", "es", "", ""]
    assert rows[0].reasons["question_user"] == {"code": "other_language", "language": "de", "holds": ["en"]}
    assert set(rows[0].values.values()) == {None}
    assert any(value is not None for value in rows[3].values.values())
    page = flat(admin_client.get(f"/dashboard/studies/{study.key}/metrics/", follow=True).content.decode())
    assert "Not computed for 3 conversations in German and Spanish" in page
    assert "3 excluded because of their language" in page
    chat = Conversation.objects.get(pk=rows[0].conversation_id)
    reader = admin_client.get(f"/dashboard/conversations/{chat.pk}/", follow=True).content.decode()
    assert "excluded: valid for English, but this is in German" in reader
    out = tmp_path / "undefined.csv"
    call_command("export", "--study", study.key, "--what", "undefined", "--format", "csv", "--out", str(out))
    [line] = [
        row
        for row in out.read_text(encoding="utf-8").splitlines()
        if str(rows[2].conversation_id) in row and ",question_user," in row
    ]
    assert ",the conversation is in es; the metric supports only en,other_language," in line
    assert "Not computed for 3" in compute_all("question"), "told again, though nothing was left to compute"


@pytest.mark.django_db
def test_an_import_names_the_language_whatever_the_words_are(tmp_path: Path) -> None:
    study = study_of(tmp_path, SPANISH, ["ok"])
    file = next(tmp_path.glob("*.jsonl"))
    import_conversations(file, study_key=study.key, scale=(1, 7), language="PT-br")
    import_conversations(file, study_key=study.key, scale=(1, 7), language="de")  # that is known
    assert set(study.conversations.values_list("language", flat=True)) == {"pt-br"}
    assert "Not computed for 2 conversations in Brazilian Portuguese" in compute_all("question")
    with pytest.raises(Refused, match="the language is 'german'; use an ISO 639 code such as en, de"):
        import_conversations(file, study_key=study.key, language="german")


@pytest.mark.django_db
def test_a_chat_is_in_the_language_of_its_study_whatever_is_written() -> None:
    study = make_study("s", language="ar", min_exchanges=1)
    chat = make_conversation(study)
    exchange(chat, "Hello, how are you today? I hope that all is well with you.", "I am fine.")
    make_rating(chat)
    compute_all("question", "length", study="s")
    left = metrics_left_out(study=study)
    assert [(one.metric.name, one.n, one.is_whole) for one in left] == [("question", {"ar": 1}, True)]
    assert "in Arabic, because they are valid for English only: Question score." in left_out_sentences(left)[0]
    fit = HybridFit(study=study)
    kept, [result] = features_held(fit, ["question_user", "words_user"], may_leave_out=True)
    assert kept == ["words_user"]
    assert result.to_json() == {"code": "other_language", "features": ["question_user"], "languages": ["ar"]}
    for features, may in ((["question_user"], True), (["question_user", "words_user"], False)):
        with pytest.raises(Refused, match="Arabic"):
            features_held(fit, features, may_leave_out=may)


@pytest.mark.django_db
def test_numbers_from_before_metrics_were_left_out_are_warned_of(tmp_path: Path, admin_client: Client) -> None:
    study = study_of(tmp_path, ENGLISH)
    compute_all("question")
    MetricRun.objects.update(languages={"en": 3, "de": 1})
    page = admin_client.get(f"/dashboard/studies/{study.key}/metrics/", follow=True).content.decode()
    assert "German is the language of 1 of the 4 conversations" in page


def test_a_few_that_are_misread_are_not_told() -> None:
    metrics = [metric_get("question")]
    assert language_sentences({"en": 90, "ml": 2}, metrics) == []
    assert language_sentences({}, metrics) == []
    (told,) = language_sentences({"en": 3, "xx": 1}, metrics)
    assert told.startswith("xx is the language of 1 of the 4 conversations")


def test_a_file_that_cannot_be_read_ends_the_process_with_one_line(settings: Any, tmp_path: Path) -> None:
    settings.CONFAB_METRICS = tmp_path / "metrics.yaml"
    settings.CONFAB_METRICS.write_text("kind: perplexity")
    with pytest.raises(SystemExit, match=r"metrics.yaml must contain a list of metrics"):
        apps.get_app_config("plugins").ready()


@pytest.mark.django_db
def test_a_broken_entry_is_left_out_and_told_of(settings: Any, tmp_path: Path, client: Client) -> None:
    settings.CONFAB_METRICS = tmp_path / "metrics.yaml"
    settings.CONFAB_METRICS.write_text("[{id: mine, kind: perplexit}, {kind: toxicity, params: {model: x}}]")
    text = "entry 1 (mine): kind is &#x27;perplexit&#x27;; did you mean perplexity?"
    client.force_login(make_staff(*Right))
    make_study("s")
    pages = ["/dashboard/metrics/", "/dashboard/studies/s/metrics/"]
    try:
        apps.get_app_config("plugins").ready()
        for page in pages:
            html = client.get(page, follow=True).content.decode()
            assert "One entry of metrics.yaml is invalid and was skipped." in html
            assert text in html
        with pytest.raises(UnknownName, match=r"metrics.yaml, entry 1 \(mine\): kind is"):
            metrics_find(["mine"])
    finally:
        configured_metrics.register(tmp_path / "none.yaml")
    assert "broken" not in client.get(pages[0]).content.decode()
