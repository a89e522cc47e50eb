"""Every way to export, erase, pay, change rights or settings, or open private data leaves an entry in the audit log.

Routes come from the URLconf and from the API's description. A new one fails here until it is recorded or listed as
harmless with its reason.
"""

import io
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pytest
from django.contrib.auth import get_user_model
from django.core import serializers
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from evaluation.metrics.registry import metrics
from tests.builders import calls_forget, make_annotated, make_conversation, make_study
from tests.conftest import ROOT
from tests.evaluation.agreement.judges.fake_judge import RuleJudge, items
from tests.webapp.api.programs import openapi
from tests.webapp.pay.test_services import REASON
from webapp.audit.chain import chain_check, pending_write
from webapp.audit.models import AuditEntry, PendingEntry
from webapp.bots.models import BotHealth
from webapp.conversations.models import Conversation, Turn
from webapp.core.audit_trail import leave_request
from webapp.core.authentication import token_make
from webapp.core.models import ApiToken
from webapp.core.projects import project_create
from webapp.core.rights import Right, account_groups
from webapp.dashboard.urls import urlpatterns
from webapp.jobs.models import HybridFit, Job, SelfPlayConversation, SelfPlayRun
from webapp.pay.models import Decision
from webapp.pay.submissions import SubmissionKey
from webapp.results.benchmark_data import benchmark_upload_keep
from webapp.results.models import JudgeDevelopment, JudgeItem
from webapp.studies.models import Participant, Study, StudyAgreement
from webapp.studies.study_file import study_example, study_file_of, study_file_text
from webapp.transfer.import_scores import scores_import

pytestmark = pytest.mark.django_db
MARK = "Quetzalcoatl"
"""Word in the ids, messages and comments of participants and in all texts that staff write about them."""
Visit = Callable[..., SubmissionKey]

HARMLESS = {
    "bot_add": "fills in the form of a new bot; saving it is recorded",
    "bot_control": "marks a bot as a control in results",
    "bot_new_try": "asks a bot for a test reply",
    "bot_reply": "asks a bot for a reply",
    "bot_try": "asks a bot for a test reply",
    "benchmark": "starts a job that computes results",
    "benchmark_remove": "removes an uploaded file of published texts",
    "benchmark_renew": "starts a job that computes results",
    "benchmark_reply": "starts a job that computes results",
    "conversation_note": "a note, stored with its author",
    "import_file": "starts an import, a job with its author; the study that it creates is recorded",
    "imports": "uploads a file; importing it is a job with its author",
    "job_go_on": "resumes a job",
    "job_move": "moves a job in the queue",
    "job_stop": "stops a job",
    "judges": "starts a job that computes results",
    "judges_drift": "starts a job that computes results",
    "project_choose": "switches the pages to another project of the user",
    "run_keep": "a saved search",
    "run_note": "a note, stored with its author",
    "study_note": "a note, stored with its author",
    "run_measure": "starts a job that computes results",
    "runs": "starts a job that plays conversations of bots",
    "simulate": "starts a job that plays conversations of bots",
    "study_analyse": "starts a job that computes results",
    "study_console_act": "a message in a chat, stored with its author",
    "study_keep": "a saved search",
    "study_redaction": "decisions about personal data in texts; exports, which apply them, are recorded",
    "study_pay_codes": "reads the settings of a study on the platform",
    "study_person_answer": "an answer to a participant, stored with its author",
    "study_prediction": "starts a job that computes results",
    "start": "the bots, the secret and the study that it stores are recorded",
    "study_first": "starts a job; opening the study is recorded",
    "study_rehearse": "starts a job with scripted participants",
    "study_report": "starts a job that computes a report; downloading it is recorded",
    "study_reports": "marks reports of replies as seen",
    "study_simulated": "starts a job that computes results",
    "study_why": "starts a job that computes results",
    "theme": "the colours of the user's pages",
    "tour": "closes the introduction",
    "alert_test": "sends a test alert",
    "audit_check": "checks the audit log; the result is stored with it",
}
"""Routes of the dashboard that take a POST and are not recorded, each with the reason."""
PICTURES = {"study_results_picture": "a figure of results, as on the page"}
"""Downloads that are not recorded, each with the reason."""


class World:
    """A server with a paid study that is open, and the browser of somebody with all rights."""

    def __init__(self, study: Study, visit: Visit, chief: Client) -> None:
        self.study, self.browser = study, chief
        self.chief = get_user_model().objects.get(username="chief")
        self._visit = visit

    def visit(self, outcome: str, name: str, **details: Any) -> SubmissionKey:
        """Make a visit of somebody whose id and words have the mark."""
        key = self._visit(outcome, f"{name}-{MARK}", **details)
        Turn.objects.filter(conversation__participant=key.participant).update(text=MARK)
        return key

    def post(self, route: str, /, *args: Any, **fields: Any) -> Any:
        response = self.browser.post(reverse(f"dashboard:{route}", args=args), fields)
        assert response.status_code in (200, 302), (route, response.status_code, response.content.decode()[:2000])
        return response

    def get(self, route: str, /, *args: Any, **query: Any) -> Any:
        response = self.browser.get(reverse(f"dashboard:{route}", args=args), query)
        assert response.status_code == 200, (route, response.status_code)
        assert response.streaming or response.content
        return response

    def draft(self, key: str = "draft") -> str:
        make_study(key, state="draft")
        return key

    def file(self, study: Study, **changes: Any) -> str:
        """Return a study's file with other settings."""
        return study_file_text(study_file_of(study).model_copy(update=changes))


def decided(world: World, action: str) -> None:
    """Take each decision about pay by its button."""
    key = world.visit("rated", "a")
    form = {"visit": str(key), "person": str(key)}
    if action == "reject":
        world.post(
            "study_pay_decide", "paid", action=action, reason=f"{REASON} {MARK}", category="OTHER", sure="1", **form
        )
        return
    if action == "bonus":
        params = {"asked": str(uuid.uuid4()), "amount": "1.50", "note": MARK, "sure": "1"}
        world.post("study_pay_decide", "paid", action=action, **form, **params)
        return
    world.post("study_pay_decide", "paid", action="approve", **form)
    decision = Decision.objects.get().pk
    if action == "retry":
        Decision.objects.update(state="failed", error="400")
    if action != "approve":
        world.post("study_pay_decide", "paid", action=action, decision=decision)


def confirming(world: World) -> None:
    """Open the page that asks to confirm a rejection, with the participant's id."""
    key = str(world.visit("rated", "a"))
    world.post("study_pay_decide", "paid", action="reject", visit=key, person=key)


def offered(world: World, action: str) -> None:
    """Offer a study to another project, which answers."""
    project_create(actor=world.chief, key="other", name="Other")
    world.post("project_change", action="offer", study="paid", to="other")
    if action == "withdraw":
        world.post("project_change", action="withdraw", study="paid")
    elif action != "offer":
        world.post("project_choose", project="other")
        world.post("project_change", action=action, study="paid")


def limited(world: World) -> None:
    world.post("project_change", action="limits", project="default", monthly_cost_limit="12.5", disk_limit_mb="100")


def agreed(world: World, action: str) -> None:
    """Ask another project about its study, and have it answer."""
    project_create(actor=world.chief, key="asking", name="Asking")
    world.post("project_choose", project="asking")
    world.post("project_change", action="ask", study="paid")
    number = StudyAgreement.everywhere.get().pk
    if action == "agree":
        world.post("project_choose", project="default")
    if action != "ask":
        world.post("project_change", action=action, agreement=number)


def excluded(world: World, action: str) -> None:
    world.visit("rated", "x")
    world.post("study_exclude", "paid", what="exclude")
    if action == "include":
        world.post("study_exclude", "paid", what="undo")


def excluded_of_run(world: World) -> None:
    spoken = Conversation.objects.create(source="selfplay", state="completed", bot=make_conversation(world.study).bot)
    run = SelfPlayRun.objects.get(pk=new_run())
    SelfPlayConversation.objects.create(run=run, bot_id="eliza", ordinal=0, conversation=spoken)
    world.post("run_exclude", run.pk, what="exclude")


def judging(world: World, *, of_run: bool = False) -> None:
    excluded_of_run(world)
    world.visit("rated", "j")
    run = SelfPlayRun.objects.get()
    world.post("run_exclude", run.pk, what="undo")
    world.post(*(("run_judge", run.pk) if of_run else ("study_judge", "paid")), protocol="dialogues")


def a_member(world: World) -> int:
    world.post("people", username="ann", email="a@example.org", groups=[account_groups()[0].pk])
    return int(get_user_model().objects.get(username="ann").pk)


def changed_member(world: World, action: str) -> None:
    pk = a_member(world)
    if action == "delete":
        world.post("person_change", pk, action="deactivate")
    world.post("person_change", pk, action=action)


def a_secret(world: World) -> int:
    from webapp.bots.models import Secret

    world.post("secrets", name="key", address="https://bots.example", value="sk-1234567890")
    return int(Secret.objects.get().pk)


def a_token(world: World) -> int:
    world.post("tokens", name="t", rights=["read"], days=3)
    return int(ApiToken.objects.get().pk)


BOT = {"title": "Lab", "bot_id": "audited", "base_url": "https://m.example.org/v1", "model": "m", "key": ""}


def a_bot(world: World) -> str:
    world.post("bot_new", **BOT, temperature="0")
    return "audited"


def a_gold_item(world: World) -> None:
    make_annotated()
    world.post("study_gold", "a", item="i1", by_quality=["4", "5"])


def samples(world: World, *, remove: bool = False) -> None:
    world.post("study_new", protocol="survey", name="survey")
    world.post("study_items", "survey", _sample="1")
    if remove:
        world.post("study_items", "survey", _take_out="sample")


def a_shared_report(world: World, *, end: bool = False) -> None:
    from tests.webapp.dashboard.reporting.test_sharing import document
    from webapp.insights.report_document import document_dump
    from webapp.insights.report_files import report_ask, report_path

    world.visit("rated", "reported")
    job = report_ask(study=world.study)
    report_path(job).write_bytes(document_dump(document(1)))
    Job.objects.filter(pk=job.pk).update(state="done", result={"n_ratings": 1})
    world.get("study_report_file", "paid")
    world.post("report_share", "paid", name="Reviewers", days="7")
    if end:
        [share] = world.study.shared_reports.all()
        world.post("report_share_end", "paid", share.pk)


def a_stored_export(world: World) -> None:
    """Have a worker make a table, as if it were large, and download the file."""
    from webapp.jobs.engine import run_job

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("webapp.dashboard.views.export.LARGE_EXPORT", -1)
        world.post("study_export", "paid", what="pay", format="csv", include_private="on")
    job = Job.objects.get(kind="export")
    run_job(job)
    world.get("study_export_file", "paid", job.pk)


def a_fit(world: World) -> None:
    fit = HybridFit.objects.create(
        study=world.study, request={"preset": "paper"}, result={}, kept={"a": 1}, state="done"
    )
    world.get("fit_download", "paid", fit.pk)


def a_judging(world: World) -> None:
    job = Job.objects.create(kind="judges", state="done", result={"rows": []}, payload={})
    world.get("judges_file", job.pk, "json")


def filled_results(world: World) -> None:
    key = world.visit("rated", "m", platform="mturk")
    world.post("study_pay_decide", "paid", action="approve", visit=str(key), person=str(key))
    file = SimpleUploadedFile("r.csv", f"AssignmentId,WorkerId\nses-m-{MARK},W\n".encode(), "text/csv")
    world.post("study_pay_mturk", "paid", file=file)


def deleted_study(world: World) -> None:
    world.draft("gone")
    world.post("study_delete", "gone", typed="gone")


def put_back(world: World) -> None:
    from django.utils.timezone import now

    BotHealth.objects.create(bot_id="eliza", n_failed=5, set_aside_at=now(), failed_since=now())
    world.post("bot_back", "eliza")


def a_run(world: World) -> None:
    run = SelfPlayRun.objects.create(name="r", plan={"bots": ["eliza"], "n_conversations": 1})
    world.get("run_export", run.pk, what="conversations", format="csv")


def a_developed_judge(world: World) -> int:
    judge = RuleJudge(lambda text, repeat: 3.0, name="ruled", title="Ruled")
    rows = items(np.full((60, 3), 4.0), [MARK] * 60)
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file = benchmark_upload_keep(SimpleUploadedFile("rated.jsonl", content))
    metrics.add(judge)
    try:
        world.post("judge_developments", gold=f"file:{file}", judge="ruled", test_percent=50, most=300)
    finally:
        metrics.discard("ruled")
    return int(JudgeDevelopment.objects.get().pk)


def a_correction(world: World) -> None:
    pk = a_developed_judge(world)
    PendingEntry.everywhere.all().delete()
    item = JudgeItem.objects.filter(part="development")[0]
    world.post("judge_development", pk, action="correct", item=item.pk, score=3, reason=MARK)


def opened(world: World) -> None:
    world.visit("rated", "p")
    world.get("study_people", "paid")


def opened_person(world: World) -> None:
    key = world.visit("rated", "p")
    world.get("study_person", "paid", key.participant)


RECORDED: dict[str, list[tuple[str, Callable[[World], Any]]]] = {
    "judge_developments": [("judge.develop", a_developed_judge)],
    "judge_development": [("judge.develop", a_correction)],
    "study_new": [("study.create", lambda w: w.post("study_new", protocol="chat", name="New"))],
    "study_new_file": [("study.create", lambda w: w.post("study_new_file", text=example(w)))],
    "study_file_upload": [
        ("study.change", lambda w: w.post("study_file_upload", "paid", text=w.file(w.study, name="B"), _sure="1"))
    ],
    "study_duplicate": [("study.create", lambda w: w.post("study_duplicate", "paid"))],
    "study_archive": [("study.archive", lambda w: w.post("study_archive", w.draft(), archived="1"))],
    "study_delete": [("study.delete", deleted_study)],
    "study_items": [("items.add", samples), ("items.remove", lambda w: samples(w, remove=True))],
    "study_gold": [("gold.store", a_gold_item)],
    "metric_delete": [("scores.delete", lambda w: w.post("metric_delete", new_scores(w.study)))],
    "study_build_step": [("study.change", lambda w: w.post("study_build_step", "paid", "check", _state="paused"))],
    "study_people_state": [("study.change", lambda w: w.post("study_people_state", "paid", _state="ended"))],
    "study_links": [("links.create", lambda w: w.post("study_links", "paid", n="3", label=MARK, days=""))],
    "study_exclude": [
        ("chats.exclude", lambda w: excluded(w, "exclude")),
        ("chats.include", lambda w: excluded(w, "include")),
    ],
    "run_exclude": [("chats.exclude", excluded_of_run)],
    "study_judge": [("study.create", judging)],
    "run_judge": [("study.create", lambda w: judging(w, of_run=True))],
    "study_pay_decide": [
        ("pay.approve", lambda w: decided(w, "approve")),
        ("pay.reject", lambda w: decided(w, "reject")),
        ("pay.bonus", lambda w: decided(w, "bonus")),
        ("pay.undo", lambda w: decided(w, "undo")),
        ("pay.mark_sent", lambda w: decided(w, "sent")),
        ("pay.retry", lambda w: decided(w, "retry")),
        ("private.open", confirming),
    ],
    "study_pay_mturk": [("download", filled_results)],
    "study_person_erase": [
        ("erase", lambda w: w.post("study_person_erase", "paid", w.visit("rated", "e").participant))
    ],
    "study_person_origin": [
        (
            "origin.mark",
            lambda w: w.post("study_person_origin", "paid", w.visit("rated", "e").participant, verdict="human"),
        )
    ],
    "report_share": [("report.share", a_shared_report)],
    "report_share_end": [("report.unshare", lambda w: a_shared_report(w, end=True))],
    "study_export": [
        ("export", lambda w: w.post("study_export", "paid", what="conversations", format="csv", q=f"“{MARK}”"))
    ],
    "study_datasheet": [("download", lambda w: w.get("study_datasheet", "paid", format="md"))],
    "study_package": [("export", lambda w: w.post("study_package", "paid"))],
    "bot_new": [("bot.save", a_bot)],
    "bot_edit": [("bot.save", lambda w: w.post("bot_edit", a_bot(w), **BOT, temperature="1"))],
    "bot_archive": [("bot.archive", lambda w: w.post("bot_archive", a_bot(w), archived="1"))],
    "bot_share": [("bot.share", lambda w: w.post("bot_share", a_bot(w), shared="1"))],
    "bot_back": [("bot.put_back", put_back)],
    "projects": [("project.create", lambda w: w.post("projects", name="Lab", key="lab"))],
    "project_change": [
        ("project.rename", lambda w: w.post("project_change", action="rename", name="All")),
        ("project.limit", limited),
        ("agreement.ask", lambda w: agreed(w, "ask")),
        ("agreement.drop", lambda w: agreed(w, "drop")),
        ("agreement.answer", lambda w: agreed(w, "agree")),
        ("role.save", lambda w: w.post("project_change", action="role", name="Helper", rights=["private"])),
        ("study.offer", lambda w: offered(w, "offer")),
        ("study.decline", lambda w: offered(w, "withdraw")),
        ("study.decline", lambda w: offered(w, "decline")),
        ("study.move", lambda w: offered(w, "accept")),
    ],
    "people": [("account.create", a_member), ("member.roles", a_member), ("account.link", a_member)],
    "person_change": [
        ("member.roles", lambda w: changed_member(w, "groups")),
        ("account.activate", lambda w: changed_member(w, "deactivate")),
        ("account.delete", lambda w: changed_member(w, "delete")),
        ("account.link", lambda w: changed_member(w, "link")),
    ],
    "secrets": [("secret.store", a_secret)],
    "secret_change": [
        ("secret.replace", lambda w: w.post("secret_change", a_secret(w), value="sk-0987654321")),
        ("secret.delete", lambda w: w.post("secret_change", a_secret(w), action="delete")),
    ],
    "secrets_again": [("secrets.renew", lambda w: w.post("secrets_again"))],
    "tokens": [("token.create", a_token)],
    "token_end": [("token.revoke", lambda w: w.post("token_end", a_token(w)))],
}
"""Actions of the routes that take a POST, each with requests that lead to it."""
OPENED: dict[str, list[tuple[str, Callable[[World], Any]]]] = {
    "study_file": [("download", lambda w: w.get("study_file", "paid"))],
    "study_links_csv": [("download", lambda w: w.get("study_links_csv", "paid"))],
    "study_pay_mturk": [("download", lambda w: w.get("study_pay_mturk", "paid"))],
    "study_people": [("private.open", opened)],
    "study_person": [("private.open", opened_person)],
    "study_report_file": [("download", a_shared_report)],
    "study_export": [("export", lambda w: w.get("study_export", "paid", what="ratings", format="csv"))],
    "study_export_file": [("export", a_stored_export), ("export.order", a_stored_export)],
    "study_datasheet": [("download", lambda w: w.get("study_datasheet", "paid", format="json"))],
    "fit_download": [("download", a_fit)],
    "run_export": [("export", a_run)],
    "benchmark_csv": [("download", lambda w: w.get("benchmark_csv"))],
    "judges_file": [("download", a_judging)],
    "audit_csv": [("download", lambda w: w.get("audit_csv"))],
}
"""Actions of downloads and of pages with private data, each with a request that leads to it."""
ELSEWHERE = {"study_simulated_file": "tests/webapp/results/test_realism.py"}
"""Downloads whose entry another test checks."""


def example(world: World) -> str:
    return study_file_text(study_example("chat").model_copy(update={"key": "fresh", "bots": ("eliza",)}))


@pytest.fixture
def world(paid: Study, visit: Visit, chief: Client, settings: Any, tmp_path: Path) -> World:
    from cryptography.fernet import Fernet

    settings.DATA_DIR = tmp_path
    settings.CONFAB_BOTS = tmp_path / "bots.yaml"
    settings.CONFAB_SECRETS_KEYS = [Fernet.generate_key().decode()]
    settings.CONFAB_API_RATE = "100000/s"
    calls_forget()
    leave_request()  # a streamed response of an earlier test was perhaps never closed
    return World(paid, visit, chief)


def actions() -> list[str]:
    return list(PendingEntry.everywhere.order_by("pk").values_list("action", flat=True))


SCENARIOS = [
    pytest.param(action, act, id=f"{name}-{action}-{number}")
    for routes in (RECORDED, OPENED)
    for name, route in routes.items()
    for number, (action, act) in enumerate(route)
]


@pytest.mark.parametrize(("action", "act"), SCENARIOS)
def test_the_action_is_recorded(world: World, action: str, act: Callable[[World], Any]) -> None:
    act(world)
    entry = PendingEntry.everywhere.filter(action=action).latest("pk")
    assert entry.actor == world.chief.pk
    assert entry.origin == {"by": "page", "address": "127.0.0.1"}
    pending_write()
    assert chain_check(entry.project).problem == ""
    log = serializers.serialize("json", AuditEntry.everywhere.all())
    assert MARK not in log
    for participant in Participant.objects.values_list("pk", flat=True):
        assert str(participant) not in log
        assert participant.hex not in log


WHAT_ROUTES_ARE = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="lists of routes are the same on all databases"
)


@WHAT_ROUTES_ARE
def test_each_route_that_changes_something_is_recorded_or_harmless(world: World) -> None:
    posting = set()
    for pattern in urlpatterns:
        if pattern.name is not None:
            names = {**world_values(), "pk": 0}
            url = reverse(f"dashboard:{pattern.name}", kwargs={n: names[n] for n in pattern.pattern.converters})
            if world.browser.post(url).status_code != 405:
                posting.add(pattern.name)
    listed = RECORDED.keys() | HARMLESS.keys()
    assert posting == listed, (posting - listed, listed - posting)
    assert not RECORDED.keys() & HARMLESS.keys()


def world_values() -> dict[str, Any]:
    from tests.webapp.dashboard.test_rights import VALUES

    return VALUES


@WHAT_ROUTES_ARE
def test_each_download_and_private_page_is_recorded(world: World) -> None:
    """Request all addresses with what exists: whatever comes as a file, or needs the right, is known above."""
    key = world.visit("rated", "a")
    run = SelfPlayRun.objects.create(name="r", plan={"bots": ["eliza"], "n_conversations": 1})
    values = {**world_values(), "key": "paid", "participant_id": key.participant, "bot_id": "eliza", "run_id": run.pk}
    files = set()
    for pattern in urlpatterns:
        if pattern.name is not None:
            url = reverse(f"dashboard:{pattern.name}", kwargs={n: values[n] for n in pattern.pattern.converters})
            for query in ({"format": "csv", "what": "conversations"}, {}, {"format": "md"}):
                before = len(actions())
                response = world.browser.get(url, query)
                if "attachment" in response.headers.get("Content-Disposition", ""):
                    files.add(pattern.name)
                    assert len(actions()) > before or pattern.name in PICTURES, url
                elif response.status_code == 200:
                    break  # a page, which has no format
                rights = getattr(pattern.callback, "rights", {}).get("GET", ())
                assert Right.PRIVATE not in rights or pattern.name in OPENED, pattern.name
    assert {"study_file", "study_export", "run_export", "benchmark_csv", "audit_csv"} <= files
    assert files <= OPENED.keys() | PICTURES.keys()


API_HARMLESS = {
    **dict.fromkeys(("star", "star_remove", "tag_add", "tag_remove", "note_add", "note_remove"), "a reader's note"),
    **dict.fromkeys(("search_keep", "search_forget", "run_search_keep", "run_search_forget"), "a saved search"),
    **dict.fromkeys(("run_start", "simulation_start", "run_measure", "study_measure"), "starts a job"),
    **dict.fromkeys(("fit_start", "analysis_start", "rehearsal_start", "report_make"), "starts a job"),
    **dict.fromkeys(("benchmark_ask", "benchmark_file", "benchmark_again", "judges_ask"), "starts a job"),
    "job_stop": "stops a job",
    "job_go_on": "resumes a job",
    "items_draw": "starts a job, which records the items that it adds",
    "conversations_bring": "starts a job, which records the study that it creates",
    **dict.fromkeys(("scores_bring", "run_scores_bring"), "starts a job, which records the import"),
}
"""Calls that change something and are not recorded, each with the reason."""
API_RECORDED: dict[str, tuple[str, Callable[[World], tuple[str, str, Any]]]] = {
    "study_make": ("study.create", lambda w: ("post", "/studies", api_study())),
    "study_file": ("download", lambda w: ("get", "/studies/paid/file", None)),
    "table": ("export", lambda w: ("get", "/studies/paid/tables/pay?include_private=true", None)),
    "package": ("export", lambda w: ("get", "/studies/paid/package", None)),
    "run_table": ("export", lambda w: ("get", f"/runs/{new_run()}/tables/conversations", None)),
    "fit_file": ("download", lambda w: ("get", f"/fits/{new_fit(w)}/file", None)),
    "metric_delete": ("scores.delete", lambda w: ("delete", f"/metrics/{new_scores(w.study)}", None)),
    "datasheet_md": ("download", lambda w: ("get", "/studies/paid/datasheet.md", None)),
    "report_html": ("download", lambda w: ("get", "/studies/paid/report.html", None)),
}
"""Actions of calls, each with the call."""


def api_study() -> dict[str, Any]:
    return study_example("chat").model_copy(update={"key": "fresh", "bots": ("eliza",)}).to_plain()


def new_scores(study: Study) -> str:
    """Import a score for a finished conversation, and return the metric's name."""
    chat = make_conversation(study, entry_nonce="scored")
    Conversation.objects.filter(pk=chat.pk).update(state=Conversation.State.COMPLETED)
    with NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(f"id,metric,value\n{chat.pk},maude,1\n")
        file.flush()
        scores_import(Path(file.name), study=study)
    return "maude"


def new_run() -> int:
    return int(SelfPlayRun.objects.create(name="r", plan={"bots": ["eliza"], "n_conversations": 1}).pk)


def new_fit(world: World) -> int:
    return int(
        HybridFit.objects.create(
            study=world.study, request={"preset": "paper"}, result={}, kept={"a": 1}, state="done"
        ).pk
    )


def test_each_call_that_changes_or_downloads_something_is_recorded_or_harmless() -> None:
    changing, files = set(), set()
    for methods in openapi()["paths"].values():
        for method, described in methods.items():
            if method != "get":
                changing.add(described["operationId"])
            elif "application/json" not in described["responses"].get("200", described["responses"].get(200, {})).get(
                "content", {"application/json": {}}
            ):
                files.add(described["operationId"])
    assert {"table", "package", "run_table", "report_html", "datasheet_md"} <= files <= API_RECORDED.keys()
    assert changing == (API_RECORDED.keys() & changing) | API_HARMLESS.keys()


@pytest.mark.parametrize("name", API_RECORDED)
def test_the_call_is_recorded_with_its_token(world: World, name: str) -> None:
    world.visit("rated", "a")
    a_shared_report(world)
    token, text = token_make(user=world.chief, name="t", rights=[right.value for right in Right])
    action, call = API_RECORDED[name]
    method, path, body = call(world)
    PendingEntry.everywhere.all().delete()
    program = Client(headers={"authorization": f"Bearer {text}"})
    response = program.generic(method.upper(), f"/api/v1{path}", json.dumps(body), content_type="application/json")
    assert response.status_code == 200, response.content
    entry = PendingEntry.everywhere.filter(action=action).get()
    assert (entry.actor, entry.origin) == (world.chief.pk, {"by": "api", "token": token.pk, "address": "127.0.0.1"})


COMMANDS_HARMLESS = {
    **dict.fromkeys(
        ("serve", "bot_host", "chat", "list_bots", "list_studies", "docs", "study_example"), "shows or serves"
    ),
    **dict.fromkeys(("backup", "restore"), "is recorded, as tests/webapp/core/test_backups.py checks"),
    **dict.fromkeys(("upgrade", "migrate", "move", "verify", "audit_verify"), "is about the database or a file"),
    **dict.fromkeys(("train_bot", "train_emotion", "train_metric", "make_inference_pairs"), "trains a model"),
    **dict.fromkeys(("combine_metrics", "compute_metrics", "fit_hybrid"), "computes results"),
    **dict.fromkeys(
        ("judge_pairs", "judge_criteria", "compare_judges", "judge_drift", "realism", "can_replace"), "computes results"
    ),
    **dict.fromkeys(("selfplay", "simulate", "rehearse"), "plays conversations without participants"),
    "import_conversations": "is a job, which records the study that it creates",
    "evaluate_metrics": "records the scores of a study's replies, as tests/webapp/transfer/test_scores.py checks",
    "make_items": "writes items to a file",
}
"""Commands that are not recorded, each with the reason."""
COMMANDS: dict[str, tuple[str, list[str]]] = {
    "export": ("export", ["--study", "paid", "--what", "pay", "--include-private", "--output", "{folder}/pay.csv"]),
    "publish": ("export", ["--study", "paid", "--licence", "cc0-1.0", "--unreviewed", "--output", "{folder}/data"]),
    "export_study": ("download", ["--study", "paid", "--output", "{folder}/study.yaml"]),
    "import_study": ("study.create", ["{folder}/new.yaml"]),
    "import_items": ("items.add", ["--study", "a", "{folder}/items.jsonl"]),
    "import_scores": ("scores.import", ["--study", "a", "{folder}/scores.csv"]),
    "make_links": ("links.create", ["--study", "paid", "--number", "2", "--output", "{folder}/links.csv"]),
    "erase": ("erase", ["--study", "paid", "--people"]),
    "report": ("download", ["--study", "paid", "--output", "{folder}/report.html", "--sections", "ratings"]),
    "projects": ("project.limit", ["limit", "default", "--cost-limit", "5"]),
    "api_token": ("token.create", ["make", "--user", "chief", "--name", "t"]),
}
"""Actions of commands, each with its arguments."""


def test_each_command_is_recorded_or_harmless() -> None:
    files = (ROOT / "webapp").glob("*/management/commands/*.py")
    names = {file.stem for file in files if not file.stem.startswith("_")}
    assert names == COMMANDS.keys() | COMMANDS_HARMLESS.keys(), names ^ (COMMANDS.keys() | COMMANDS_HARMLESS.keys())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_is_recorded(world: World, tmp_path: Path, name: str) -> None:
    world.visit("rated", "a")
    make_annotated()
    (tmp_path / "new.yaml").write_text(example(world))
    item = {"id": "new", "context": ["Hi"], "responses": [{"model": "m", "text": "Hello"}]}
    (tmp_path / "items.jsonl").write_text(json.dumps(item))
    key = Study.objects.get(key="a").items.order_by("pk").values_list("key", flat=True)[0]
    (tmp_path / "scores.csv").write_text(f"id,metric,value\n{key},maude,1\n")
    PendingEntry.everywhere.all().delete()
    action, arguments = COMMANDS[name]
    words = [text.format(folder=tmp_path) for text in arguments]
    call_command(name, *words, stdout=io.StringIO(), stderr=io.StringIO())
    entry = PendingEntry.everywhere.get(action=action)
    assert (entry.actor, entry.origin) == (None, {"by": "command", "command": name})
    assert MARK not in json.dumps(entry.parameters)
