"""The API: tokens, rights, one shape of errors, and the same numbers and bytes as pages and commands give."""

import json
import zipfile
from datetime import timedelta
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from tests.builders import exchange, make_conversation, make_rating, make_staff, make_study
from tests.webapp.api.programs import Program, streamed
from webapp.core.authentication import token_make, token_revoke
from webapp.core.errors import Refused
from webapp.core.models import ApiToken
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import HybridFit, Job, SelfPlayRun
from webapp.jobs.services.selfplay import run_create
from webapp.results.cache import AnalysisKey, get_result
from webapp.results.compute import PARTS
from webapp.studies.models import Study
from webapp.studies.study_file import study_file_of
from webapp.transfer.exporters.base import exporters

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]


def tables_of(answer: Any) -> set[str]:
    """Return the tables of a data package that was sent."""
    names = zipfile.ZipFile(BytesIO(streamed(answer))).namelist()
    return {Path(name).stem for name in names if name.startswith("data/")}


def test_a_token_is_needed_and_opens_what_its_person_may(client: Client) -> None:
    refused = client.get("/api/v1/studies")
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "no_token"
    assert refused["WWW-Authenticate"] == "Bearer"
    program = Program(Right.READ)
    assert program.get("me").json()["rights"] == ["read"]
    assert program.get("studies").json() == {"items": [], "count": 0}
    assert ApiToken.objects.get().last_used_at is not None
    response = program.post("runs", {"bots": ["eliza"]})
    assert response.status_code == 403
    assert "run (Run jobs and import data)" in response.json()["error"]["message"]

    token_revoke(token=program.row)
    answer = program.get("me")
    assert answer.status_code == 401
    assert "“ci” was revoked on" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expires_at": timezone.now() - timedelta(days=1)}, "expired on"),
        ({"digest": "0" * 64}, "This server does not know the token"),
        ({"is_staff": False}, "no longer on the staff"),
        ({"is_active": False}, "no longer on the staff"),
    ],
)
def test_tokens_that_open_nothing_say_why(change: dict[str, Any], words: str) -> None:
    program = Program(Right.READ)
    row = program.user if next(iter(change)).startswith("is_") else program.row
    for name, value in change.items():
        setattr(row, name, value)
    row.save()
    answer = program.get("me")
    assert answer.status_code == 401
    assert words in answer.json()["error"]["message"]


def test_rights_that_a_person_loses_are_lost_to_their_tokens() -> None:
    program = Program(Right.READ, Right.RUN)
    program.user.user_permissions.remove(program.user.user_permissions.get(codename="run"))
    assert program.post("runs", {"bots": ["eliza"]}).status_code == 403
    with pytest.raises(Refused, match="does not have the right pay"):
        token_make(user=program.user, name="more", rights=["pay"])
    with pytest.raises(Refused, match=r"no right “reed”\. Use one of: read, private"):
        token_make(user=program.user, name="more", rights=["reed"])


def test_too_many_calls_wait(settings: Any) -> None:
    settings.CONFAB_API_RATE = "2/h"
    program, other = Program(Right.READ), Program(Right.READ, name="other")
    assert [program.get("me").status_code for _call in range(3)] == [200, 200, 429]
    assert int(program.get("me")["Retry-After"]) > 3000
    assert other.get("me").status_code == 200
    away = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1"}
    settings.CACHES = {**settings.CACHES, "shared": away}  # nothing listens there
    assert program.get("me").status_code == 200


def test_tokens_are_made_listed_and_taken_back_by_a_command() -> None:
    make_staff(Right.READ, username="ann")

    def called(*args: str) -> dict[str, Any]:
        out = StringIO()
        call_command("api_token", *args, "--json", stdout=out)
        return json.loads(out.getvalue())

    made = called("make", "--user", "ann", "--name", "CI", "--days", "30")
    assert made["token"].startswith("confab_")
    assert made["token"] not in str(ApiToken.objects.values())
    client = Client(headers={"authorization": f"Bearer {made['token']}"})
    assert client.get("/api/v1/me").json()["token"] == "CI"
    [listed] = called("revoke", str(made["id"]))["tokens"]
    assert listed["state"] == "revoked"
    assert client.get("/api/v1/me").status_code == 401
    with pytest.raises(CommandError, match="there is no user 'bob'"):
        called("make", "--user", "bob", "--name", "CI")


def test_studies_come_and_go_as_files() -> None:
    program = Program(Right.READ, Right.ADMINISTER)
    study = make_study("talk", code_rated="THANKS-7")
    file = program.get("studies/talk/file").json()
    reader = Program(Right.READ, name="reader").get("studies/talk/file").json()
    codes = [name for name in file["recruitment"] if name.startswith("code_")]
    assert any(file["recruitment"][name] for name in codes)
    assert not any(reader["recruitment"].get(name) for name in codes)
    assert file == json.loads(json.dumps(study_file_of(study).to_plain()))
    result = program.post("studies", {**file, "key": "again"})
    assert result.json() == {"key": "again", "is_new": True, "n_changes": 0, "n_items": 0}
    assert Study.objects.get(key="again").state == "draft"
    response = program.post("studies", {**file, "rule": "balance", "texts": {"minutes": "soon"}})
    assert response.status_code == 422
    mistakes = {mistake["path"]: mistake["message"] for mistake in response.json()["error"]["mistakes"]}
    assert "texts.minutes is 'soon'" in mistakes["texts.minutes"]
    assert "balanced" in mistakes["rule"]
    assert [item["key"] for item in program.get("studies", limit=1).json()["items"]] == ["again"]
    missing = program.get("studies/nothing")
    assert missing.status_code == 404
    assert missing.json()["error"]["message"] == "there is no study 'nothing'"


def test_tables_are_the_bytes_of_the_command_and_private_ones_need_their_right(tmp_path: Path) -> None:
    study = make_study("shop")
    make_rating(make_conversation(study, n_exchanges=3))
    program = Program(Right.READ)
    for name, file_format in [("ratings", "csv"), ("messages", "jsonl")]:
        path = tmp_path / f"{name}.{file_format}"
        call_command(
            "export", "--study", "shop", "--what", name, "--format", file_format, "--output", str(path),
            stdout=StringIO(),
        )  # fmt: skip
        sent = program.get(f"studies/shop/tables/{name}", format=file_format)
        assert streamed(sent) == path.read_bytes()
    private = program.get("studies/shop/tables/participants", include_private=True)
    assert private.status_code == 403
    assert "private" in private.json()["error"]["message"]
    assert program.get("studies/shop/package", include_private=True).status_code == 403
    whole = tables_of(Program(*Right, name="all").get("studies/shop/package"))
    assert whole - tables_of(program.get("studies/shop/package")) == {"participants"}
    assert program.get("studies/shop/tables/rating").status_code == 404
    error = program.get("studies/shop/tables/ratings", format="xls").json()["error"]
    assert "format" in error["mistakes"][0]["path"]
    assert "'xls'" in error["message"]


def test_results_are_those_of_the_pages() -> None:
    study = make_study("shop")
    for quality in (2, 5, 6, 3):
        make_rating(make_conversation(study, n_exchanges=3), quality=quality)
    program = Program(Right.READ)
    body = program.get("studies/shop/results/comparisons").json()
    computed_result = get_result(AnalysisKey(study, "comparisons")).computed_result
    assert body["n_ratings"] == 4
    assert body["document"] == computed_result.result.to_json()
    assert body["document"]["ranks"] == {"eliza": [1, 1]}
    assert body["job"] is None
    unknown = program.get("studies/shop/results/all")
    assert unknown.status_code == 422
    assert all(part in unknown.json()["error"]["message"] for part in PARTS)


def test_runs_metrics_and_fits_are_started_followed_and_stopped() -> None:
    program = Program(Right.READ, Right.RUN)
    response = program.post("runs", {"bots": ["eliza"], "conversations": 2, "turns": 2})
    assert response.status_code == 202, response.content
    run = SelfPlayRun.objects.get()
    run_job(run)
    body = program.get(f"jobs/selfplay/{response.json()['id']}").json()
    assert (body["state"], body["n_done"], body["n_total"]) == ("done", 2, 2)
    measured = program.post(f"runs/{run.pk}/metrics", {"metrics": ["words"]})
    assert measured.json()["n_total"] == 2
    stopped = program.post(f"jobs/metrics/{measured.json()['id']}/stop")
    assert stopped.json()["state"] == "cancelled"
    assert program.post(f"jobs/metrics/{measured.json()['id']}/go-on").json()["state"] == "queued"

    make_rating(make_conversation(make_study("shop"), n_exchanges=3))
    fit = program.post("studies/shop/fits", {"targets": ["quality"], "preset": "paper", "run": run.pk})
    assert fit.status_code == 202, fit.content
    [listed] = program.get("studies/shop/fits").json()
    assert listed["run"] == run.pk
    assert program.get(f"fits/{listed['id']}").json()["request"]["targets"] == ["quality"]
    assert HybridFit.objects.get().created_by == program.user
    near = program.post("studies/shop/fits", {"targets": ["qualty"]})
    assert near.status_code == 400
    assert "quality" in near.json()["error"]["message"]
    kinds = {one["kind"] for one in program.get("jobs").json()}
    assert {"selfplay", "metrics", "hybrid"} <= kinds
    assert program.get("jobs/selfplay/999").status_code == 404
    assert program.get("jobs/dance/1").status_code == 404


def test_conversations_are_imported_by_a_job() -> None:
    program = Program(Right.READ, Right.RUN)
    record = {
        "dialogue_id": "1",
        "bot": "alpha",
        "turns": [{"speaker": "human", "text": "hi"}, {"speaker": "bot", "text": "ho"}],
        "ratings": [{"rater": "r", "quality": 4}],
    }

    def sent(name: str, *, study: str = "mine", **asked: Any) -> Any:
        file = SimpleUploadedFile(name, json.dumps(record).encode())
        return program.client.post(f"/api/v1/studies/{study}/conversations", {"file": file, **asked})

    asked = sent("rated.jsonl", low=1, high=7)
    assert asked.status_code == 202, asked.content
    job = Job.objects.get()
    run_job(job)
    body = program.get(f"jobs/import/{job.pk}").json()
    assert body["result"] == {"conversations": 1, "ratings": 1, "skipped": []}
    assert program.get("studies/mine").json()["n_ratings"] == 1
    mine = {"name": "rated.jsonl", "scales": ["fun=0:1"]}
    record["ratings"] = [{"rater": "r", "quality": 4, "fun": 1}, {"rater": "s", "quality": 5}]
    assert sent(**mine, study="read-off").status_code == 202
    run_job(Job.objects.latest("pk"))
    asked_of = Study.objects.get(key="read-off").rubric.dimensions.all()
    assert {one.key: one.scale_inferred for one in asked_of} == {"quality": True, "fun": False}
    assert "must end in .jsonl.gz" in sent("rated.txt").json()["error"]["message"]
    assert sent("rated.jsonl", low=1).status_code == 422
    assert Program(Right.READ, name="reader").client.post("/api/v1/studies/mine/conversations").status_code == 403


@pytest.fixture(scope="module")
def shop(rows_of_file: None) -> int:
    """Make a study of four rated conversations, of which two speak of tomatoes; return its primary key."""
    study = make_study("shop")
    for number, quality in enumerate((2, 6, 3, 7)):
        chat = make_conversation(study, n_exchanges=3, entry_nonce=f"n{number}")
        if number < 2:
            exchange(chat, "I like tomatoes", "Do you cook?")
        make_rating(chat, quality=quality)
    return study.pk


def exported(path: Path, what: str, line: str, **source: Any) -> bytes:
    call_command("export", what=what, format="jsonl", search=line, output=path, stdout=StringIO(), **source)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("line", "n"), [("tomatoes", 2), ("quality>=6", 2), ("sort:-quality limit:1", 1), ("xyzzy", 0), ("", 4)]
)
def test_a_table_is_of_what_a_search_finds(study: Study, tmp_path: Path, line: str, n: int) -> None:
    program = Program(Right.READ)
    for what in ("ratings", "conversations", "messages"):
        sent = streamed(program.get(f"studies/shop/tables/{what}", q=line))
        assert sent == exported(tmp_path / what, what, line, study="shop")
        if what != "messages":
            assert len(sent.splitlines()) == n


@pytest.mark.parametrize("what", [exporter.name for exporter in exporters if hasattr(exporter, "is_searched")])
def test_every_table_of_conversations_can_be_searched(study: Study, what: str) -> None:
    answer = Program(Right.READ).get(f"studies/shop/tables/{what}", q="xyzzy")
    assert (answer.status_code, streamed(answer)) == (200, b"")


@pytest.mark.parametrize(
    ("what", "line", "words"),
    [
        ("conversations", "qualty>3", "q is invalid"),
        ("ratings", "flags>many", "“many” is not a number"),
        ("bots", "tomatoes", "The search can be used with: chat_ratings"),
        ("ratings", "a" * 1001, "q"),
    ],
)
def test_what_cannot_be_searched_is_told(study: Study, what: str, line: str, words: str) -> None:
    answer = Program(Right.READ).get(f"studies/shop/tables/{what}", q=line)
    assert answer.status_code == 422
    [mistake] = answer.json()["error"]["mistakes"]
    assert mistake["path"] == "q"
    assert words in mistake["message"]


def test_tables_of_a_run_are_searched_too(tmp_path: Path) -> None:
    run = run_create(bots=["eliza", "parrot"], n_conversations=2, n_turns=4, enqueue=False)
    run_job(run)
    run = SelfPlayRun.objects.get(pk=run.pk)
    program = Program(Right.READ)
    path = f"runs/{run.pk}/tables"
    sent = streamed(program.get(f"{path}/conversations", q="bot:eliza"))
    assert sent == exported(tmp_path / "run", "conversations", "bot:eliza", run=run.pk)
    assert len(sent.splitlines()) == 2
    assert program.get(f"{path}/conversations", q="bot:elisa").status_code == 422
    assert program.get(f"{path}/bots", q="bot:eliza").status_code == 422
    assert program.get(f"{path}/participants", q="bot:eliza").status_code == 404
