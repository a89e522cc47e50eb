"""Comparison of simulated participants with people: its data, job, page, files, report, command, API and erasure."""

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from evaluation.findings import Reason
from evaluation.metrics.registry import metric_get
from evaluation.metrics.text_cache import TextCache
from evaluation.simulation.realism.result import (
    BotPrediction,
    GiveawayTurn,
    ReactionSlopes,
    RealismResult,
    RealismVerdict,
    TraitDistance,
    TwoSampleTest,
)
from evaluation.stats.effect_sizes import Effect
from tests.builders import signed_in
from tests.webapp.api.programs import Program
from tests.webapp.jobs.test_simulation import add_chat, create, done, imported, talked
from webapp.audit.models import PendingEntry
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.insights.narrative.realism import realism_section
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, MetricRun, SelfPlayRun, State
from webapp.jobs.services.fits import metric_run_create
from webapp.jobs.services.selfplay import run_create
from webapp.ratings.models import Rating
from webapp.ratings.selectors import study_bots
from webapp.results.realism import (
    people_study,
    realism_ask,
    realism_compute,
    realism_newest,
    realism_of,
    simulated_study,
)
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase

pytestmark = pytest.mark.django_db

SAID = "The train was late again today"
RESULT = RealismResult(
    participant="replayed",
    verdict=RealismVerdict("replayed: a classifier tells them apart.", "More bots would change it.", True, "not_known"),
    bots=("eliza", "parrot"),
    n_people=4,
    n_simulated=8,
    n_persons=3,
    n_nameless=1,
    is_within=False,
    traits=(
        TraitDistance("length", "log_words", "Words, log", "turn", 1.5, 2.25, Effect(0.75, 0.5, 1.25), 0.125),
        TraitDistance("surface", "emoji", "Emoji", "turn", 0.0, 0.0, Effect(reason=Reason("people_constant", "x"))),
    ),
    tests=(
        TwoSampleTest("traits", Effect(0.875, 0.75, 0.9375), n_people=4, n_simulated=8),
        TwoSampleTest(
            "vectors", Effect(0.5, 0.25, 0.75), giveaways=(GiveawayTurn("eliza", "c", 2, 1.5, SAID, "Why?", 3),)
        ),
    ),
    reactions=(ReactionSlopes("negation", "Negation", Effect(-0.5, -1.0, -0.25), Effect(0.25), Effect(0.75), 2),),
    predictions=(BotPrediction("paper", "people", "simulated", 2, r=Effect(0.5, -0.5, 0.75)),),
    left_out={"qc": Reason("control_bot", "made to be bad on purpose")},
    missing={"reactions": Reason("few_bots_for_slope", "2 bots", n_bots=2, needed=5)},
)


def compared(study: Study, result: RealismResult = RESULT) -> tuple[SelfPlayRun, Job]:
    """Make a run with its comparison as if a worker had computed it."""
    run = done(create(study))
    MetricRun.objects.filter(run=run).update(state=State.DONE)
    job = realism_ask(run)
    Job.objects.filter(pk=job.pk).update(state=State.DONE, result=result.to_json())
    job.refresh_from_db()
    return run, job


def rate(study: Study) -> None:
    for chat in study.conversations.all():
        answers = {"quality": 5 if chat.bot.bot_id == "eliza" else 2}
        Rating.objects.create(
            conversation=chat,
            participant=chat.participant,
            rubric=study.rubric,
            answers=answers,
            submitted_at=timezone.now(),
        )


def test_people_and_simulated_chats_are_read_with_stored_metrics_and_ids() -> None:
    study = imported()
    run = done(create(study))
    for of in ({"run": run}, {"study": study}):
        metric_run_create(**of, metrics=["words"], enqueue=False)
        run_job(MetricRun.objects.latest("pk"))
    shared = TextCache("cpu")
    people, simulated = people_study(study, shared), simulated_study(run, "replayed", shared)
    assert {dialogue.conversation.id for dialogue in people.dialogues} == {
        dialogue.conversation.id for dialogue in simulated.dialogues
    }
    said = {dialogue.conversation.id: dialogue.conversation.texts[1::2] for dialogue in people.dialogues}
    assert all(
        said[dialogue.conversation.id][: len(dialogue.conversation.texts) // 2] == dialogue.conversation.texts[1::2]
        for dialogue in simulated.dialogues
    ), "each within its own chat"
    assert "words" in simulated._computed
    table = simulated.metrics(["words"]).set_index("conversation")
    again = metric_get("words").compute([dialogue.conversation for dialogue in simulated.dialogues], shared=shared)
    for name in again.conversations:
        assert table[name].to_dict() == pytest.approx(again.conversations[name].to_dict(), nan_ok=True)


def test_ratings_reach_the_comparison() -> None:
    study = talked()
    rate(study)
    people = people_study(study, TextCache("cpu"))
    means = people.ratings.groupby("bot")["quality"].mean()
    assert means.to_dict() == {"eliza": 5.0, "parrot": 2.0}


def test_the_job_compares_and_is_kept_until_the_data_change() -> None:
    study = imported()
    run = done(create(study))
    job = realism_ask(run)
    run_job(job)
    job.refresh_from_db()
    assert job.state == State.DONE, job.error
    result = realism_of(job)
    assert result is not None
    assert result.participant == "replayed"
    assert result.verdict.sentence
    assert set(result.left_out) | set(result.bots) == {"bot_a", "bot_b"}
    assert realism_ask(run) == job
    Conversation.objects.filter(selfplay__run=run).first().delete()
    assert realism_ask(run) != job
    assert realism_newest(study) == (job, result), "the older one is shown until the new one is there"


def test_self_play_of_the_same_bots_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    study = talked(bots=["eliza", "parrot", "generic"])
    add_chat(study, "generic", ["How was your day", "Mine was long"])
    run = done(create(study))
    played = run_create(bots=["eliza", "parrot", "generic"], n_conversations=2, n_turns=4, enqueue=False)
    run_job(played)
    metric_run_create(run=played, metrics=["words"], enqueue=False)
    run_job(MetricRun.objects.latest("pk"))
    values: dict[str, Any] = {}

    def keep(people: Any, simulated: Any, selfplay: Any) -> RealismResult:
        values.update(people=people, simulated=simulated, selfplay=selfplay)
        return RESULT

    monkeypatch.setattr("evaluation.simulation.realism.compare.realism", keep)
    assert realism_compute(run, "replayed") == RESULT
    sizes = {name: (len(one), one.bots, one.is_selfplay) for name, one in values.items()}
    bots = ("eliza", "generic", "parrot")
    assert sizes == {"people": (5, bots, False), "simulated": (12, bots, False), "selfplay": (6, bots, True)}


def test_what_cannot_be_compared_is_refused() -> None:
    study = talked()
    with pytest.raises(Refused, match="no complete conversation of replayed"):
        realism_ask(create(study))
    with pytest.raises(Refused, match="is self-play"):
        realism_ask(run_create(bots=["eliza"], n_conversations=1, enqueue=False))
    with pytest.raises(Refused, match="no participant"):
        realism_ask(done(create(study)), "retrieval")


def test_the_section_says_the_verdict_and_every_number() -> None:
    section = realism_section(RESULT, study_bots(talked()))
    assert section.in_one_sentence == RESULT.verdict.sentence
    assert section.missing == ["Reactions: 2 bots; 5 are needed.", "qc is excluded: a deliberately poor control."]
    tables = {table.id.removeprefix("simulated-"): table.table for table in section.tables}
    assert list(tables) == ["traits", "classifiers", "giveaways", "reactions", "predictions"]
    rows = [[cell.text for cell in row] for row in tables["traits"].rows]
    assert rows[0][2:] == ["turn", "1.50", "2.25", "0.75", "[0.50, 1.25]", "0.12", "Not known"]
    assert tables["traits"].rows[1][5].reason.startswith("the human values are all equal")
    assert [cell.text for cell in tables["classifiers"].rows[0]][1:3] == [".88", "[.75, .94]"]
    bare = realism_section(RESULT, {}, texts=False)
    assert "simulated-giveaways" not in [table.id for table in bare.tables]


def test_the_page_shows_run_job_result_and_failure() -> None:
    study = talked()
    client = signed_in(Right.READ, Right.RUN)
    run = done(create(study))
    address = f"{reverse('dashboard:study_simulated', args=['s'])}?run={run.pk}"
    MetricRun.objects.filter(run=run).update(state=State.DONE)
    waits = client.get(address)
    assert waits.status_code == 200
    assert "The result will appear here" in waits.content.decode()
    job = Job.objects.get(kind="realism")
    Job.objects.filter(pk=job.pk).update(state=State.FAILED, error="no <luck>")
    fails = client.get(address)
    assert fails.status_code == 200
    assert "no &lt;luck&gt;" in fails.content.decode()
    Job.objects.filter(pk=job.pk).update(state=State.DONE, error="", result=RESULT.to_json())
    shows = client.get(address)
    assert shows.status_code == 200
    html = shows.content.decode()
    assert html.index(RESULT.verdict.sentence) < html.index("Eight traits")
    assert SAID in html
    for name, word in (("result.json", '"replayed"'), ("simulated-traits.csv", "Words, log")):
        file = client.get(reverse("dashboard:study_simulated_file", args=["s", job.pk, name]))
        assert file.status_code == 200
        assert word in file.content.decode()
    assert PendingEntry.everywhere.filter(action="download", object_id=job.pk).count() == 2
    assert client.get(reverse("dashboard:study_simulated_file", args=["s", job.pk, "none.csv"])).status_code == 404
    empty = SelfPlayRun.objects.filter(pk=run.pk)
    Conversation.objects.filter(selfplay__run=run).delete()
    assert empty.exists()
    nothing = client.get(address)
    assert nothing.status_code == 200
    assert "no complete conversation" in nothing.content.decode()


def test_the_command_prints_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    study = talked()
    run, _job = compared(study)
    out = StringIO()
    call_command("realism", "s", "--run", str(run.pk), "--json", stdout=out)
    assert json.loads(out.getvalue()) == RESULT.to_json()
    out = StringIO()
    call_command("realism", "s", stdout=out)
    assert RESULT.verdict.sentence in out.getvalue()
    for args, code in ((["s", "--run", "99"], 1), (["t"], 1), (["s", "--participant", "retrieval"], 1)):
        with pytest.raises(CommandError) as error:
            call_command("realism", *args)
        assert error.value.returncode == code


@pytest.mark.usefixtures("api_afresh")
def test_a_program_reads_the_document() -> None:
    run, job = compared(talked())
    program = Program(Right.READ)
    body = program.get("studies/s/results/realism", run=run.pk).json()
    assert body["document"] == RESULT.to_json()
    assert body["job"] is None
    assert body["participant"] == "replayed"
    Job.objects.filter(pk=job.pk).delete()
    body = program.get("studies/s/results/realism", run=run.pk).json()
    assert (body["document"], body["job"]["state"]) == (None, "queued")
    assert program.get("studies/s/results/realism", run=99).status_code == 404
    assert program.get("studies/s/results/realism").status_code == 422
    assert program.get("studies/s/results/realism", run=run.pk, participant="x").status_code == 400


def test_the_report_has_the_newest_without_texts() -> None:
    study = talked()
    rate(study)
    compared(study)
    results: dict[str, Any] = {}
    from webapp.insights.report_sections import report_steps
    from webapp.results.compute import PARTS
    from webapp.results.study_data import study_data, study_frame

    data = study_data(study)
    assert data is not None
    frame = study_frame(study, data.facts)

    def result(part: str) -> Any:
        return results.setdefault(part, PARTS[part].make(data, None))

    steps = {step.id: step for step in report_steps(frame, result)}
    section = steps["simulated"].make()
    assert section.lead[0] == RESULT.verdict.sentence
    assert SAID not in str(section)


def test_erasing_a_person_removes_results_that_quote_people(django_capture_on_commit_callbacks: Any) -> None:
    study = talked()
    compared(study)
    person = Participant.objects.get(conversations__turns__text=SAID)
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(pk=person.pk))
    assert not Job.objects.filter(kind="realism").exists()
    assert realism_newest(study) is None


def test_a_result_of_another_shape_is_computed_again() -> None:
    study = talked()
    run, job = compared(study)
    Job.objects.filter(pk=job.pk).update(result={"old": 1})
    assert realism_newest(study) is None
    assert realism_ask(run).state == State.QUEUED
    assert replace(RESULT, seed=2).to_json() != RESULT.to_json()
