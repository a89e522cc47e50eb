"""Pages: who may see them, what they say, and that they do not ask the database more for more data."""

import io
import json
import uuid
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.builders import import_upload, make_conversation, make_participant, make_study
from tests.markup import flat
from tests.webapp.dashboard.conftest import rate_some
from webapp.bots.services import bot_version_record_imported
from webapp.conversations.models import Conversation, Turn
from webapp.jobs.models import HybridFit, Job, MetricResult, MetricRun, MetricVersion, SelfPlayRun
from webapp.ratings.models import Rating
from webapp.studies.models import Outcome, Study, Task

HOSTILE = "<img src=x onerror=alert(1)>"
STUDY_PAGES = [
    *("study", "study_results", "study_why", "study_prediction", "study_conversations", "study_people"),
    "study_report",
]
PAGES = ["home", "studies", "bots", "runs", "imports", "metrics"]


def addresses(study: Study) -> list[str]:
    conversation = study.conversations.first()
    return [
        *(reverse(f"dashboard:{name}") for name in PAGES),
        *(reverse(f"dashboard:{name}", args=[study.key]) for name in STUDY_PAGES),
        reverse("dashboard:bot", args=["eliza"]),
        reverse("dashboard:conversation", args=[conversation.pk]),
    ]


def test_staff_see_every_page(staff: Client, rated: Study) -> None:
    for address in addresses(rated):
        answer = staff.get(address, follow=True)
        assert answer.status_code == 200, address
        html = answer.content.decode()
        assert html.count("<h1") == 1, address
        assert 'style="' not in html, address
        assert "<script>" not in html, address


def test_queries_do_not_grow_with_conversations(staff: Client, rated: Study) -> None:
    def count(name: str) -> int:
        cache.clear()
        with CaptureQueriesContext(connection) as queries:
            assert staff.get(reverse(f"dashboard:{name}", args=[rated.key])).status_code == 200
        return len(queries)

    def counts() -> dict[str, int]:
        return {name: count(name) for name in STUDY_PAGES}

    counts()  # what is looked up once a process
    before = counts()
    rate_some(rated, 6, offset=2)
    counts()  # what is found anew once the data have changed
    assert counts() == before


def test_queries_of_the_list_do_not_grow_with_studies(staff: Client, rated: Study) -> None:
    def count(name: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert staff.get(reverse(f"dashboard:{name}")).status_code == 200
        return len(queries)

    count("home")
    before = count("home"), count("studies")
    for i in range(5):
        rate_some(make_study(f"more-{i}"), 1)
    assert (count("home"), count("studies")) == before


def test_studies_are_found_by_state_and_by_words_of_their_name_or_key(staff: Client, rated: Study) -> None:
    make_study("plans", name="Draft of 2026", state="draft")

    def keys(**query: str) -> list[str]:
        answer = staff.get(reverse("dashboard:studies"), query)
        assert answer.status_code == 200
        return [row.study.key for row in answer.context["rows"]]

    assert keys() == keys(state="nonsense") == ["plans", "rated"]
    assert keys(state="draft") == keys(q="of 20") == keys(q="PLAN") == ["plans"]
    assert keys(state="collecting", q="plan") == []


def test_a_hostile_name_stays_text(staff: Client, db: None) -> None:
    study = make_study("hostile", name=HOSTILE)
    conversation = make_conversation(study, n_exchanges=3)
    bot = bot_version_record_imported(bot_id=HOSTILE, source="x")
    Conversation.objects.filter(pk=conversation.pk).update(bot=bot, state="completed")
    Turn.objects.filter(conversation=conversation).update(text=HOSTILE)
    Rating.objects.create(
        conversation=conversation,
        rubric=study.rubric,
        rater=HOSTILE,
        comment=HOSTILE,
        answers={"quality": 3},
        submitted_at=conversation.created_at,
    )
    for address in addresses(study):
        html = staff.get(address, follow=True).content.decode()
        assert "<img" not in html, address
    html = staff.get(reverse("dashboard:study_results", args=["hostile"])).content.decode()
    assert "&lt;img" in html
    assert "%3Cimg" in html


def test_an_unknown_study_is_not_found(staff: Client, db: None) -> None:
    for name in STUDY_PAGES:
        assert staff.get(reverse(f"dashboard:{name}", args=["nowhere"])).status_code == 404
    assert staff.get(reverse("dashboard:bot", args=["nobody"])).status_code == 404
    assert staff.get(reverse("dashboard:conversation", args=[uuid.uuid4()])).status_code == 404
    assert staff.get("/dashboard/jobs/nothing/1/live/").status_code == 404


def test_scripted_participants_are_left_out_until_asked_for(staff: Client, rated: Study) -> None:
    make_conversation(rated, n_exchanges=3, is_synthetic=True)
    Conversation.objects.filter(is_synthetic=True).update(state="completed")
    address = reverse("dashboard:study", args=[rated.key])
    left_out = staff.get(address)
    assert "Scripted participants are excluded." in left_out.content.decode()
    assert left_out.context["cards"].n_completed == 8
    response = staff.get(address + "?synthetic=1")
    assert "Scripted participants are included." in response.content.decode()
    assert response.context["cards"].n_completed == 9


def test_a_damaged_page_key_begins_anew(staff: Client, rated: Study) -> None:
    address = reverse("dashboard:study_conversations", args=[rated.key])
    pk = str(uuid.uuid4())
    for key in ("x", "~2026-01-01T00:00:00~no", "~~", f"~2026-99-99~{pk}", f"x~2026-01-01~{pk}"):
        assert len(staff.get(address, {"after": key}).context["page"].rows) == 8


def test_the_reader_says_none_and_why(staff: Client, rated: Study) -> None:
    from evaluation.metrics.registry import metric_get

    conversation = rated.conversations.first()
    metric = metric_get("sentiment")
    version = MetricVersion.objects.create(key=metric.identity.key, name="sentiment", version=metric.identity.version)
    MetricResult.objects.create(
        conversation=conversation,
        metric=version,
        values={"sentiment_user": None},
        turns={
            "sentiment_user": [None, None, 0.5, None, -0.25, None],
            "sentiment_bot": [None, 0.13, None, 0.75, None, 0.0],
        },
        reasons={"sentiment_user": "the first message answers nothing"},
    )
    answer = staff.get(reverse("dashboard:conversation", args=[conversation.pk]) + "?turn=2", follow=True)
    read = answer.context["pane"].read
    assert [track.chosen.name for track in read.tracks] == ["sentiment"]
    assert [turn.cells[0].value for turn in read.turns] == ["none", "0.13", "0.50", "0.75", "−0.25", "0.00"]
    assert [turn.index for turn in read.turns if turn.chosen] == [2]
    html = answer.content.decode()
    assert "the first message answers nothing" in html
    assert "1 metrics, all in the current version." in html


def hybrid_result(n_bots: int) -> dict:
    ids = ["eliza", "parrot", *(f"bot{i}" for i in range(n_bots - 2))]
    level = {"r": 0.84, "p": 0.01, "ci95": [0.34, 0.97], "null95": 0.6}
    return {
        "preset": "paper",
        "target": "quality",
        "intercept": "fold",
        "n_bots": n_bots,
        "n_conversations": 80,
        "bots": {
            bot_id: {
                "human_mean": 2.0 + i,
                "predicted": 2.5 + i * 0.5,
                "predicted_selfplay": None,
                "n": 10,
                "human_ci90": [1.5 + i, 2.5 + i],
                "predicted_ci90": None,
            }
            for i, bot_id in enumerate(ids)
        },
        "coefficients": {
            "words_user": {"mean": 0.1, "scaled_mean": 0.3, "scaled_ci90": [0.2, 0.4]},
            "laughter_user": {"mean": None, "scaled_mean": None, "scaled_ci90": None},
        },
        "bot_level": {"pearson": level},
        "bot_level_selfplay": None,
        "conversation_level": {"pearson": {"r": 0.3, "p": 0.1, "ci95": [0.1, 0.5]}},
        "baselines": {"words_per_human_turn": {"bot_level": {"pearson": {"r": 0.58, "p": 0.1, "ci95": None}}}},
        "pairs": {"all": 28, "ordered": 20, "resolvable": 10, "resolvable_ordered": 9},
        "cautions": ["Features are nearly collinear."],
    }


def test_under_five_bots_there_is_no_correlation_but_a_reason(staff: Client, rated: Study) -> None:
    HybridFit.objects.create(
        study=rated,
        request={"targets": ["quality"], "intercept": "fold"},
        result=hybrid_result(4),
        state=Job.State.DONE,
    )
    answer = staff.get(reverse("dashboard:study_prediction", args=[rated.key]))
    assert answer.context["view"].tiles == []
    html = answer.content.decode()
    assert "Only 4 bots are rated, and at least 5 are needed" in html
    assert ">.84<" not in html


def test_a_fit_is_asked_for(staff: Client, rated: Study, django_capture_on_commit_callbacks: object) -> None:
    address = reverse("dashboard:study_prediction", args=[rated.key])
    response = staff.post(address, {"targets": ["no"], "preset": "paper", "intercept": "fold"})
    assert response.status_code == 400
    assert "The fit was not started." in response.content.decode()
    right = {"targets": ["quality", "fluency"], "preset": "paper", "intercept": "common"}
    assert staff.post(address, right).status_code == 302
    fit = HybridFit.objects.get()
    assert fit.request["targets"] == ["quality", "fluency"]
    assert fit.request["intercept"] == "common"
    live = staff.get(address).content.decode()
    assert reverse("dashboard:job_live", args=["hybrid", fit.pk]) in live


def test_a_run_is_started_followed_and_stopped(staff: Client) -> None:
    plan = {"bots": ["eliza"], "n_conversations": 3, "n_turns": 4, "seed": 7, "openers": "Hi\n\n How are you? \n"}
    refused = staff.post(reverse("dashboard:runs"), {**plan, "bots": ["nobody"]})
    assert refused.status_code == 400
    assert staff.post(reverse("dashboard:runs"), plan).status_code == 302
    run = SelfPlayRun.objects.get()
    assert run.plan["openers"] == ["Hi", "How are you?"]
    assert run.created_by is not None
    html = staff.get(reverse("dashboard:run", args=[run.pk])).content.decode()
    assert "of 3 conversations" in html
    live = staff.get(reverse("dashboard:job_live", args=["selfplay", run.pk]))
    assert 'data-over="0"' in live.content.decode()
    assert live["Cache-Control"] == "no-store"
    staff.post(reverse("dashboard:job_stop", args=["selfplay", run.pk]))
    run.refresh_from_db()
    assert run.state == Job.State.CANCELLED
    live = staff.get(reverse("dashboard:job_live", args=["selfplay", run.pk]))
    assert 'data-over="1"' in live.content.decode()


def test_metrics_are_asked_for(staff: Client, rated: Study) -> None:
    address = reverse("dashboard:study_prediction", args=[rated.key])
    assert staff.post(address, {"compute": "these", "metric": ["words"]}).status_code == 302
    assert MetricRun.objects.get().metrics == ["words"]
    assert MetricRun.objects.get().n_total == 8
    staff.post(address, {"compute": "these", "metric": ["no-such-metric"]})
    assert "no-such-metric" in staff.get(address).content.decode()
    assert MetricRun.objects.count() == 1


RATED = json.dumps(
    {
        "dialogue_id": "1",
        "bot": "b",
        "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "yo"}],
        "ratings": [{"rater": "r", "quality": 4}],
    }
)


def upload(text: str, name: str = "file.jsonl") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, io.BytesIO(text.encode()).read())


def test_an_upload_is_imported_and_bad_lines_are_listed(staff: Client) -> None:
    lines = RATED + "\n{broken\n"
    scale = {"low-quality": 1, "high-quality": 5}
    answer = import_upload(staff, upload(lines), study="imp", **scale)
    html = flat(answer.content.decode())
    assert answer.status_code == 200
    assert "1 new conversation and 1 new rating." in html
    assert [item.line for item in answer.context["shown"]] == [2]
    study = Study.objects.get(key="imp")
    assert (study.rubric.low, study.rubric.high) == (1, 5)
    again = import_upload(staff, upload(lines), study="imp")
    assert "0 new conversations and 0 new ratings." in flat(again.content.decode())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"file": upload(RATED), "study": "no spaces"}, "Use only unaccented letters"),
        ({"file": upload(RATED), "low-quality": 1}, "both ends of the scale"),
        ({"file": upload(RATED), "low-quality": 5, "high-quality": 1}, "must be smaller"),
        ({"file": upload("\x00\x01 nonsense", "x.csv")}, "x.csv is in an unknown format"),
        ({"file": upload("x", "x.exe")}, "is not a .jsonl"),
        ({"file": upload("", "x.csv")}, "The file is empty."),
        ({"file": None}, "This field is required."),
    ],
)
def test_a_bad_upload_is_refused_with_its_reason(staff: Client, fields: dict, said: str) -> None:
    before = Study.objects.count()
    if fields["file"] is None:
        answer = staff.post(reverse("dashboard:imports"))
    else:
        answer = import_upload(staff, **fields)
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert Study.objects.count() == before


async def test_the_try_it_chat_asks_the_bot_host_and_stores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from chatbots.bots.base import BotError
    from webapp.dashboard.views.bots import _read

    def read(body: bytes) -> tuple[str, list[dict[str, str]], int]:
        return _read(RequestFactory().post("/", body, content_type="application/json"))

    problem, turns, seed = read(b'{"turns": [{"speaker": "human", "text": "hi"}], "seed": 3}')
    assert (problem, turns, seed) == ("", [{"speaker": "human", "text": "hi"}], 3)
    for body in (b"", b"[]", b'{"turns": 1}', b'{"turns": []}', b'{"turns": [{"speaker": "bot"}]}'):
        assert read(body)[0]
    long = json.dumps({"turns": [{"speaker": "human", "text": "x" * 2001}]}).encode()
    assert read(long)[0] == "A message can have at most 2000 characters."
    assert issubclass(BotError, Exception)


def test_the_theme_is_kept_and_goes_back_only_here(staff: Client) -> None:
    address = reverse("dashboard:theme")
    answer = staff.post(address, {"theme": "dark", "next": "/dashboard/bots/"})
    assert answer["Location"] == "/dashboard/bots/"
    assert staff.cookies["theme"].value == "dark"
    assert 'data-theme="dark"' in staff.get("/dashboard/").content.decode()
    away = staff.post(address, {"theme": "system", "next": "https://evil.example/"})
    assert away["Location"] == "/dashboard/"
    assert "data-theme" not in staff.get("/dashboard/").content.decode()


def test_a_missing_study_names_similar_ones(staff: Client) -> None:
    make_study("garden-chats")
    page = staff.get("/dashboard/studies/garden-chat/")
    assert page.status_code == 404
    assert f'Did you mean <a href="{reverse("dashboard:study", args=["garden-chats"])}">' in page.content.decode()
    stranger = Client().get("/s/garden-chat/")
    assert stranger.status_code == 404
    assert "garden-chats" not in stranger.content.decode()


def test_studies_are_sorted_by_progress_and_show_activity(staff: Client) -> None:
    study = make_study("busy")
    for days in (0, 3, 3, 40):
        ended = timezone.now() - timedelta(days=days)
        Task.objects.create(
            participant=make_participant(study),
            version=study.version,
            kind="chat",
            state=Task.State.COMPLETED,
            completion_code=uuid.uuid4().hex[:12],
            outcome=Outcome.RATED,
            ended_at=ended,
        )
    html = staff.get(reverse("dashboard:studies")).content.decode()
    assert "3 in the last 14 days" in html
    assert "data-sortable" in html
    assert 'data-sort="0"' in html
