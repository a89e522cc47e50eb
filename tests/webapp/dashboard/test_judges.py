"""Judges at the doors: page, files, API and commands, of replies and of conversations, and a drift that is told."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client

from chatbots.registry import bots
from evaluation.agreement.judges.alternative_test import alternative_test
from evaluation.agreement.judges.gold import gold_of_replies
from evaluation.agreement.metric_agreement import judgements_of
from evaluation.data.items import JudgedItem
from evaluation.metrics.registry import metrics
from tests.builders import make_conversation, make_rating, make_staff, make_study, signed_in
from tests.evaluation.agreement.judges.fake_judge import RuleJudge, crowd, items
from tests.markup import flat
from tests.webapp.api.programs import Program
from webapp.bots.models import Alert
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.jobs.services.selfplay import run_create
from webapp.results.benchmark import benchmark_file_remove, benchmark_uploads
from webapp.results.benchmark_data import benchmark_upload_keep
from webapp.results.judges import JudgesParams, judge_list, judges_ask

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("api_afresh")]
ADDRESS = "/dashboard/metrics/judges/"
RNG = np.random.default_rng(2)
TRUTH, RATINGS = crowd(60, 4, RNG)
NOISE = RNG.uniform(1, 5, 60)


def of_text(text: str, repeat: int) -> float:
    return float(TRUTH[int(text.split()[1])])


@pytest.fixture
def judges() -> Iterator[dict[str, RuleJudge]]:
    made = {
        "good": RuleJudge(of_text, name="good", title="Good"),
        "random": RuleJudge(lambda text, repeat: float(NOISE[int(text.split()[1])]), name="random", title="Random"),
    }
    for one in made.values():
        metrics.add(one)
    yield made
    for name in made:
        metrics.discard(name)


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(make_staff(Right.READ, Right.RUN))
    return client


def rows() -> list[dict[str, Any]]:
    return items(RATINGS, [f"reply {k}" for k in range(60)])


def uploaded() -> str:
    content = "".join(json.dumps(row) + "\n" for row in rows()).encode()
    return benchmark_upload_keep(SimpleUploadedFile("rated.jsonl", content))


def asked(file: str, *names: str) -> dict[str, Any]:
    return {
        "gold": f"file:{file}",
        "expertise": "skilled",
        "most": 300,
        "judges": names,
        "question": "",
        "run": "",
        "sure": "1",
    }


def made(file: str, *names: str) -> Job:
    job = judges_ask(params=JudgesParams(file=file, title="rated.jsonl", judges=names))
    run_job(job)
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    return job


def test_the_page_begins_with_the_verdicts_and_has_each_figure_of_the_test(staff: Client, judges: Any) -> None:
    file = uploaded()
    Job.objects.create(kind="benchmark", payload={"study": "", "file": file, "title": "rated.jsonl", "metrics": []})
    empty = staff.get(ADDRESS)
    assert empty.status_code == 200
    assert "No judges have been compared yet" in empty.content.decode()
    plan = staff.post(ADDRESS, {**asked(file, "good", "random"), "sure": []})
    assert plan.context["plan"].missing == ""
    assert "The ratings suffice to test whether a judge may replace a rater." in flat(plan.content.decode())
    assert not Job.objects.filter(kind="judges").exists()
    sent = staff.post(ADDRESS, asked(file, "good", "random"))
    assert sent.status_code == 302
    assert staff.post(ADDRESS, asked(file, "good", "random")).status_code == 302
    [job] = Job.objects.filter(kind="judges")  # the same data and versions: the same job
    running = staff.get(ADDRESS)
    assert running.status_code == 200
    assert "data-live" in running.content.decode()
    run_job(job)
    response = staff.get(ADDRESS)
    assert response.status_code == 200
    html = flat(response.content.decode())
    assert "Can a judge replace a rater of rated.jsonl?" in html
    assert "<strong>Good may replace a rater; it is not known whether Random may replace a rater.</strong>" in html
    assert (
        "<p>Good may replace a rater. It scored 60 of 60 rated items (100 %). It wins the alternative-annotator" in html
    )
    assert "<p>It is not known whether Random may replace a rater." in html
    assert "rated items would decide it for a judge as good as a rater." in html
    assert "do not use it as a judge here" in html
    good_card, random_card, panel_card = response.context["cards"]
    assert (good_card.verdict, random_card.verdict) == ("May replace a rater", "Not known")
    assert panel_card.title == "Panel of 2 judges, mean"
    assert "Share of raters that it can replace" in html
    assert html.count("cell-svg") >= 3
    gold = gold_of_replies(judgements_of(JudgedItem.model_validate(row) for row in rows()))
    expected = alternative_test(gold, TRUTH.clip(1, 5), 0.15)
    table = staff.get(f"{ADDRESS}{job.pk}.csv")
    assert table.status_code == 200
    [good, random, _panel] = csv.DictReader(io.StringIO(table.content.decode()))
    assert (good["Can replace a rater"], random["Can replace a rater"]) == ("yes", "not known")
    assert float(good["Winning rate"]) == expected.winning_rate
    assert float(good["Advantage"]) == pytest.approx(expected.advantage)
    plain = staff.get(f"{ADDRESS}{job.pk}.json")
    assert plain.status_code == 200
    assert len(plain.json()["judges"][0]["scores"][0]) == 60
    assert staff.get(f"{ADDRESS}{job.pk}.pdf").status_code == 404
    assert staff.get(f"{ADDRESS}{job.pk + 1}.csv").status_code == 404


def test_what_cannot_be_compared_is_refused_and_readers_start_nothing(staff: Client, judges: Any) -> None:
    nothing = staff.post(ADDRESS, asked("", "good"))
    assert nothing.status_code == 400
    make_study("empty")
    unrated = staff.post(ADDRESS, asked("", "good") | {"gold": "study:empty"})
    assert unrated.status_code == 400
    assert "study:empty is not one of the available choices" in unrated.content.decode()
    assert signed_in(Right.READ, username="reader").post(ADDRESS, asked("", "good")).status_code == 403
    with pytest.raises(Refused, match="unknown judge 'bad'"):
        judges_ask(params=JudgesParams(study="empty", judges=("bad",)))
    with pytest.raises(Refused, match="there is no study 'none'"):
        judges_ask(params=JudgesParams(study="none", judges=("good",)))


def test_rated_conversations_of_a_study_are_judged_whole_and_forgotten_with_their_participant(
    staff: Client, judges: Any, django_capture_on_commit_callbacks: Any
) -> None:
    study = make_study("talk")
    for k in range(12):
        chat = make_conversation(study, n_exchanges=3)
        chat.turns.filter(index=1).update(text=f"reply {k}")
        make_rating(chat, quality=1 + k % 5)
    chat_rule = RuleJudge(lambda text, repeat: 4.0, name="whole", title="Whole", chat_prompt="x|{chat} {question}")
    metrics.add(chat_rule)
    try:
        sent = staff.post(ADDRESS, asked("", "whole") | {"gold": "study:talk"})
        assert sent.status_code == 302, flat(sent.content.decode())
        [job] = Job.objects.filter(kind="judges")
        run_job(job)
    finally:
        metrics.discard("whole")
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    assert (job.result["unit"], job.result["n_rated"], job.result["question"]) == ("chat", 12, "quality")
    [result] = job.result["judges"]
    assert result["verdict"] == "unknown"
    assert result["biases"]["place"]["reason"].startswith("whole conversations are scored individually")
    html = staff.get(ADDRESS)
    assert html.status_code == 200
    assert "It is not known whether Whole may replace a rater" in html.content.decode()
    participant = study.participants.first()
    with django_capture_on_commit_callbacks(execute=True):
        call_command("erase", study="talk", participant=str(participant.pk), json=True)
    assert not Job.objects.filter(kind="judges").exists()


def test_chats_of_a_run_are_scored_too_and_stand_apart_from_peoples(staff: Client, judges: Any) -> None:
    study = make_study("talk")
    for k in range(8):
        make_rating(make_conversation(study, n_exchanges=3), quality=1 + k % 5)
    run = run_create(bots=["eliza", "parrot"], n_conversations=3, n_turns=4, seed=1)
    run_job(run)
    metrics.add(RuleJudge(lambda text, repeat: 4.0, name="whole", chat_prompt="x|{chat} {question}"))
    try:
        sent = staff.post(ADDRESS, asked("", "whole") | {"gold": "study:talk", "run": str(run.pk)})
        assert sent.status_code == 302
        [job] = Job.objects.filter(kind="judges")
        run_job(job)
    finally:
        metrics.discard("whole")
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    assert (job.result["n"], job.result["n_rated"]) == (14, 8)
    worth = job.result["judges"][0]["worth"]
    assert {name: sum(bot["n_unrated"] for bot in one["bots"].values()) for name, one in worth.items()} == {
        "people": 0,
        "extra": 6,
    }
    html = staff.get(ADDRESS)
    assert html.status_code == 200
    assert "in the run" in html.content.decode()


def test_a_file_is_removed_with_the_comparisons_of_it(judges: Any) -> None:
    file = uploaded()
    job = made(file, "good")
    assert [upload.title for upload in benchmark_uploads()] == ["rated.jsonl"]
    assert benchmark_file_remove(file=file, user=make_staff(Right.RUN, username="u")) == 1  # type: ignore[arg-type]
    assert not Job.objects.filter(pk=job.pk).exists()


def test_a_program_and_the_commands_have_the_same_result(judges: Any, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    call_command("compare_judges", data=path, judges="good,random", json=True)
    printed = json.loads(capsys.readouterr().out)
    assert [judge["verdict"] for judge in printed["judges"]] == ["may", "unknown"]
    call_command("compare_judges", data=path, judges="good")
    assert "Good may replace a rater" in capsys.readouterr().out
    program = Program(Right.READ, Right.RUN)
    listed = program.get("judges")
    assert listed.status_code == 200
    assert [len(one["result"]["judges"]) for one in listed.json()] == [1, 2]
    make_study("shop")
    refused = program.post("judges", {"study": "shop", "judges": ["good"]})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "not_rated"
    assert program.post("judges", {"study": "shop", "judges": []}).status_code == 422
    with pytest.raises(CommandError, match="unknown judge 'bad'"):
        call_command("compare_judges", data=path, judges="bad")
    with pytest.raises(CommandError, match="no finished comparison of judges with this number"):
        call_command("judge_drift", job=999_999)


def test_a_changed_model_is_noticed_and_told(judges: Any, settings: Any, capsys: Any) -> None:
    settings.CONFAB_ALERT_EMAILS = ["lab@example.org"]
    job = made(uploaded(), "good")
    call_command("judge_drift")
    assert not Alert.objects.exists()
    assert "There is no evidence of drift of Good" in capsys.readouterr().out
    # Comparisons that were stored before titles had ids call all judges of a kind alike.
    job.refresh_from_db()
    job.result["judges"][0]["title"] = "Language model as judge"
    job.save()
    call_command("judge_drift")
    assert "There is no evidence of drift of Good" in capsys.readouterr().out
    judges["good"].rule = lambda text, repeat: of_text(text, repeat) / 2 + 2.2
    call_command("judge_drift", job=job.pk, json=True)
    [result] = json.loads(capsys.readouterr().out)
    assert result["has_drifted"] is True
    [alert] = Alert.objects.filter(event=Alert.Event.JUDGE_DRIFTED)
    assert alert.said["title"] == "Confab: the judge Good has drifted"
    assert alert.said["words"] == result["sentence"]


def test_bots_made_of_a_model_are_judges_too_and_a_small_one_is_noted(judges: Any) -> None:
    results = {one.name: one for one in judge_list()}
    assert {"good", "random"} <= results.keys()
    models = [bot for bot in bots if bot.identity.params.get("model")]
    assert {result.title for result in results.values()} >= {f"{bot.name}, standard prompt" for bot in models}
    job = made(uploaded(), "good")
    assert "parameters" not in job.result["sentences"][0]
    metrics.add(RuleJudge(of_text, name="tiny", title="Tiny", bot="tiny-135m"))
    try:
        [small] = made(uploaded(), "tiny").result["judges"]
    finally:
        metrics.discard("tiny")
    assert "135 million parameters" in small["sentence"]
