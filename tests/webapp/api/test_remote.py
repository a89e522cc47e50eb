"""`confab.connect`: a program's server, whose studies are those that `confab.read` returns."""

import json
from io import StringIO
from pathlib import Path

import httpx
import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command

import confab
from evaluation.remote import Server, ServerError
from tests.builders import make_conversation, make_rating, make_staff, make_study
from webapp.core.authentication import token_make
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import HybridFit, Job, MetricRun, SelfPlayRun
from webapp.studies.models import Study

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]


@pytest.fixture(scope="module")
def shop(rows_of_file: None) -> int:
    """Make a study of three rated conversations; return its primary key."""
    study = make_study("shop")
    for quality in (2, 5, 6):
        make_rating(make_conversation(study, n_exchanges=3), quality=quality)
    return study.pk


def server(*rights: Right) -> Server:
    user = make_staff(*rights, username="-".join(rights))
    _row, token = token_make(user=user, name="ci", rights=rights)
    transport = httpx.WSGITransport(app=WSGIHandler())
    return Server("http://testserver/dashboard/", token, transport=transport)


def test_a_study_is_the_one_that_read_returns(study: Study, tmp_path: Path) -> None:
    file = tmp_path / "package.zip"
    call_command("export", "--study", "shop", "--what", "package", "--output", str(file), stdout=StringIO())
    result, expected = server(Right.READ, Right.PAY).study("shop"), confab.read(file)
    assert result.dialogues == expected.dialogues
    assert result.scale == expected.scale
    assert result.dimensions == expected.dimensions
    assert sorted(result.tables) == sorted(expected.tables)
    assert result.left_out == ()
    reader = server(Right.READ).study("shop")
    assert reader.dialogues == expected.dialogues
    assert (reader.scale, reader.reversed) == (expected.scale, expected.reversed)
    assert reader.left_out == ("participants",)
    assert set(expected.tables) - set(reader.tables) == {"participants"}
    assert confab.compare(reader, "quality").to_json() == confab.compare(expected, "quality").to_json()


def test_tables_results_and_files(study: Study, tmp_path: Path) -> None:
    lab = server(Right.READ)
    expected = tmp_path / "wanted.csv"
    call_command(
        "export", "--study", "shop", "--what", "ratings", "--format", "csv", "--output", str(expected),
        stdout=StringIO(),
    )  # fmt: skip
    assert lab.table("shop", "ratings", tmp_path / "got.csv").read_bytes() == expected.read_bytes()
    assert lab.result("shop", "comparisons")["n_ratings"] == 3
    assert [study["key"] for study in lab.studies()] == ["shop"]
    with pytest.raises(ServerError, match="administer") as refused:
        lab.study_make(lab.study_file("shop"))
    assert refused.value.status == 403
    assert "403" not in str(refused.value)
    with pytest.raises(ServerError, match="there is no table 'rating'"):
        lab.table("shop", "rating", tmp_path / "none.csv")
    assert not list(tmp_path.glob("*none*"))


def test_work_is_asked_for_and_waited_for(study: Study, tmp_path: Path) -> None:
    lab = server(Right.READ, Right.RUN)
    run = lab.selfplay(["eliza"], conversations=1, turns=2)
    with pytest.raises(TimeoutError, match="not finished after 0 seconds"):
        lab.wait(run, timeout_s=0)
    run_job(SelfPlayRun.objects.get())
    seen: list[str] = []
    assert lab.wait(run, told=lambda job: seen.append(job.state)).n_done == 1
    assert seen == ["done"]

    measured = lab.measure(run=run.id, metrics=["words"])
    assert lab.stop(measured).state == "cancelled"
    with pytest.raises(RuntimeError, match="cancelled"):
        lab.wait(measured)
    assert MetricRun.objects.get().run_id == run.id

    fit = lab.hybrid("shop", targets=["quality"], preset="paper", run=run.id)
    assert HybridFit.objects.get().run_id == run.id
    with pytest.raises(ValueError, match="it is queued"):
        lab.fit(fit.id)

    file = tmp_path / "more.jsonl"
    file.write_text(json.dumps({"dialogue_id": "1", "bot": "a", "turns": [{"speaker": "human", "text": "hi"}]}))
    brought = lab.bring("mine", file, scale=(1, 7))
    run_job(Job.objects.get(kind="import"))
    assert lab.wait(brought).result["conversations"] == 1


def test_runs_are_compared_and_benchmarks_made_of_files(tmp_path: Path) -> None:
    lab = server(Right.READ, Right.RUN)
    for seed in (1, 2):
        run = lab.selfplay(["eliza"], conversations=2, turns=2, seed=seed)
        run_job(SelfPlayRun.objects.get(pk=run.id))
    measured = lab.stop(lab.measure(run=run.id, metrics=["words"]))
    assert lab.go_on(measured).state == "queued"
    run_job(MetricRun.objects.get(pk=measured.id))
    result = lab.runs_compare(columns=["words_bot"])
    assert (result["differ"], [run["id"] for run in result["runs"]]) == (["seed"], [run.id, run.id - 1])
    new, old = (side["means"][0] for side in result["sides"])
    assert (new["n"], old["mean"]) == (2, None)
    assert "not computed" in old["reason"]
    with pytest.raises(ServerError, match="no self-play run 999"):
        lab.runs_compare([999])

    file = tmp_path / "judged.jsonl"
    rows = [
        {"id": str(n), "source": "lab", "context": ["hi"], "response": text, "reference": "hello",
         "ratings": [{"coherence": 1 + n % 5}], "scale": [1, 5]}
        for n, text in enumerate(["hello", "bye", "hello you", "no", "hello hello", "what"])
    ]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = lab.benchmark_file(file, ["bleu"])
    run_job(Job.objects.get(pk=made.id))
    assert lab.wait(made).state == "done"
    again = lab.benchmark_again(made.id)
    assert (again.kind, again.id) == ("benchmark", made.id), "nothing has changed since"


def test_addresses_and_tokens_that_open_nothing_say_why() -> None:
    with pytest.raises(ValueError, match="must begin with http"):
        confab.connect("lab.example.org", "confab_x")
    stranger = Server("http://testserver", "confab_x", transport=httpx.WSGITransport(app=WSGIHandler()))
    with pytest.raises(ServerError, match="This server does not know the token"):
        stranger.me()
    elsewhere = httpx.MockTransport(lambda request: httpx.Response(404, text="<html>"))
    with pytest.raises(ServerError, match="responded with 404"):
        Server("http://elsewhere", "confab_x", transport=elsewhere).me()


def test_where_no_server_answers_the_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.remote.client._AGAIN_S", ())
    with pytest.raises(httpx.TransportError, match=r"no server responds at http://127\.0\.0\.1:1"):
        confab.connect("http://127.0.0.1:1", "confab_x")
