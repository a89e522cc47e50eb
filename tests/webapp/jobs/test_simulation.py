"""Simulated participants: runs, what they leave alone, their cap in money, erasure, and the doors that start them."""

import json
from collections.abc import Callable
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from chatbots import Conversation as Dialogue
from chatbots.endpoints.metering import CapReached, ReplyCost, meter_get
from chatbots.participants.base import Move, ParticipantProfile, ParticipantTurn, SimulatedParticipant, participants
from tests.builders import make_participant, make_staff, make_study, signed_in
from tests.fakes import FakeStepBot
from tests.webapp.api.programs import Program, streamed
from webapp.bots.models import BotVersion, Spending
from webapp.bots.selectors import bot_find
from webapp.bots.services import bot_version_record, bot_version_record_imported
from webapp.conversations.models import Conversation, Turn
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.insights.selectors import bot_progress, study_runs
from webapp.jobs.engine import run_job, run_job_for
from webapp.jobs.models import MetricRun, SelfPlayConversation, SelfPlayRun
from webapp.jobs.selectors.metrics import measurable
from webapp.jobs.selectors.selfplay import run_with_metrics, runs_newest
from webapp.jobs.selectors.simulation import people_chats
from webapp.jobs.services.fits import fit_create, metric_run_create
from webapp.jobs.services.jobs import job_restart
from webapp.jobs.services.simulation import run_capped, simulation_create
from webapp.ratings.selectors import study_conversations
from webapp.search.pagination import conversations_of_study
from webapp.studies.lifecycle import study_delete
from webapp.studies.models import Participant, Study
from webapp.studies.privacy import participants_erase
from webapp.studies.privacy.retention import texts_erase

pytestmark = pytest.mark.django_db

SAID = {
    "eliza": [["Hello there friend", "My garden is full of roses", "Goodbye then"], ["I lost my keys today", "Truly"]],
    "parrot": [["What a lovely sunny morning", "Do you like to read books"], ["The train was late again today"]],
}
"""By bot, the messages of each person."""


def add_chat(study: Study, bot_id: str, said: list[str]) -> Conversation:
    """Store a person's complete chat."""
    imported = study.is_imported
    version = (
        bot_version_record_imported(bot_id=bot_id, source="s") if imported else bot_version_record(bot=bot_find(bot_id))
    )
    chat = Conversation.objects.create(
        source=Conversation.Source.IMPORT if imported else Conversation.Source.CHAT,
        state=Conversation.State.COMPLETED,
        study=study,
        participant=make_participant(study) if not imported else None,
        bot=version,
        external_id=uuid4().hex if imported else "",
        n_exchanges=len(said),
    )
    for i, text in enumerate(said):
        Turn.objects.create(conversation=chat, index=2 * i, speaker="human", text=text)
        Turn.objects.create(conversation=chat, index=2 * i + 1, speaker="bot", text=f"{bot_id} hears {text}")
    return chat


def talked(**fields: Any) -> Study:
    """Make a study with two people's chats with each of two bots."""
    study = make_study(**fields)
    for bot_id, chats in SAID.items():
        for chat in chats:
            add_chat(study, bot_id, chat)
    return study


def imported() -> Study:
    study = make_study("imp", bots=[], state=Study.State.DRAFT)
    Study.objects.filter(pk=study.pk).update(is_imported=True)
    study.refresh_from_db()
    for bot_id, chats in {"bot_a": SAID["eliza"], "bot_b": SAID["parrot"]}.items():
        for chat in chats:
            add_chat(study, bot_id, chat)
    return study


def create(study: Study, *names: str, n: int = 4, **more: Any) -> SelfPlayRun:
    return simulation_create(
        study=study, participants=names or ("replayed",), n_conversations=n, seed=7, enqueue=False, **more
    )


def done(run: SelfPlayRun) -> SelfPlayRun:
    assert not run_job_for(run).has_more
    run.refresh_from_db()
    return run


def texts(run: SelfPlayRun) -> dict[tuple[str, int], list[str]]:
    links = SelfPlayConversation.objects.filter(run=run)
    return {
        (link.bot_id, link.ordinal): list(link.conversation.turns.order_by("index").values_list("text", flat=True))
        for link in links
    }


def test_participants_chat_with_bots_in_lengths_and_words_of_people_with_other_bots() -> None:
    run = done(create(talked()))
    assert (run.state, run.n_done, run.n_total, run.title) == ("done", 8, 8, f"Simulation {run.pk}")
    played = Conversation.objects.filter(selfplay__run=run)
    assert set(played.values_list("source", "study", "is_synthetic")) == {("simulated", None, False)}
    other = {"eliza": "parrot", "parrot": "eliza"}
    for (bot_id, _ordinal), turns in texts(run).items():
        assert turns[::2] in SAID[other[bot_id]], "a person's messages to the other bot, all of them"
        assert len(turns) == 2 * len(turns[::2])


def test_the_same_seed_gives_the_same_chats_however_the_run_is_cut() -> None:
    study = talked()
    whole, cut = done(create(study)), create(study)
    assert not run_job_for(cut).has_more
    gone = SelfPlayConversation.objects.filter(run=cut, ordinal__in=(1, 3)).values_list("conversation", flat=True)
    Conversation.objects.filter(pk__in=list(gone)).delete()
    SelfPlayRun.objects.filter(pk=cut.pk).update(state="queued", planned_at=None)
    assert len(texts(done(cut))) == 8
    assert texts(cut) == texts(whole)
    assert texts(done(create(study, n=5))) != texts(whole)


def test_bots_of_an_imported_study_keep_their_turns() -> None:
    study = imported()
    run = done(create(study, n=10))
    assert (run.state, run.n_done, run.n_total) == ("done", 4, 4), "no more than people had"
    stored = {
        tuple(turn.text for turn in chat.conversation.turns if turn.speaker == "bot") for chat in people_chats(study)
    }
    for (bot_id, _n), turns in texts(run).items():
        assert tuple(turns[1::2]) in {said[: len(turns) // 2] for said in stored}
        assert not {*turns[::2]} & {text for said in SAID["eliza" if bot_id == "bot_a" else "parrot"] for text in said}


def test_simulated_chats_count_nowhere_as_peoples() -> None:
    study = talked()
    before = (study_conversations(study).count(), bot_progress(study), conversations_of_study(study).count())
    run = done(create(study))
    metric_run_create(run=run, metrics=["words"], enqueue=False)
    run_job_for(MetricRun.objects.latest("pk"))
    assert measurable(study=None, run=run).filter(metric_results__isnull=False).count() == 8
    assert (study_conversations(study).count(), bot_progress(study), conversations_of_study(study).count()) == before
    assert study_runs(study) == runs_newest(5) == []
    assert runs_newest(5, simulated=True) == [run]
    assert run_with_metrics(["eliza", "parrot"], 1) is None
    with pytest.raises(Refused, match="is a simulation, not self-play"):
        fit_create(study=study, run=run, enqueue=False)


def test_conditions_give_persona_and_goal(fake_bot: Callable[..., FakeStepBot]) -> None:
    seen: list[tuple[str, str]] = []

    class Listens(SimulatedParticipant):
        name = title = "listens"

        def moves(self, turns: Any) -> list[Move]:
            seen.extend(
                (turn.profile.persona, turn.profile.goal) for turn in turns if isinstance(turn, ParticipantTurn)
            )
            return [Move("Yes.") for _one in turns]

    participants.add(Listens())
    try:
        shop = {"key": "shop", "persona": "A cook", "goal": "Buy tea", "bot_prompt": "You sell tea."}
        factors = [{"key": "place", "levels": [shop, {"key": "street", "topic": "Tea"}]}]
        study = make_study(bots=["eliza"], factors=factors)
        run = done(create(study, "listens", n_exchanges=1))
        assert run.n_done == 4
        assert sorted(seen) == [("", "")] * 2 + [("A cook", "Buy tea")] * 2
        result = Conversation.objects.filter(selfplay__run=run).values_list("condition__place", flat=True)
        assert sorted(result) == ["shop", "shop", "street", "street"]
        seen.clear()
        done(create(study, "listens", n_exchanges=1, profiles=[ParticipantProfile(mood="ti\x00red")]))
        assert set(seen) == {("", "")}
        assert SelfPlayRun.objects.latest("pk").plan["profiles"][0]["mood"] == "tired"
    finally:
        participants.discard("listens")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"participants": []}, "name at least one participant"),
        ({"participants": ["replayd"]}, "replayed"),
        ({"bots": ["elisa"]}, "eliza"),
        ({"n_conversations": 0}, "must be at least 1"),
        ({"n_exchanges": 0}, "must be at least 1"),
        ({"max_cost": -1.0}, "must be between 0"),
        ({"seed": 2**63}, "must fit in 64 bits"),
    ],
)
def test_a_plan_that_cannot_be_done_is_refused(wanted: dict[str, Any], why: str) -> None:
    study = talked()
    with pytest.raises((Refused, LookupError), match=why):
        simulation_create(**{"study": study, "participants": ["replayed"], "enqueue": False, **wanted})
    assert not SelfPlayRun.objects.exists()


def test_names_as_long_as_bots_may_have_are_stored(fake_bot: Callable[..., FakeStepBot]) -> None:
    class Speaks(SimulatedParticipant):
        name = title = "speaks"
        speaks_by_bot = True

        def moves(self, turns: Any) -> list[Move]:
            return [Move("Yes\x00.") for _one in turns]

    longest = BotVersion._meta.get_field("bot_id").max_length
    fake_bot("b" * longest, reply=lambda _context: "No\x00.")
    participants.add(Speaks())
    try:
        run = done(create(make_study(), f"speaks:{'b' * longest}", bots=["b" * longest], n=1, n_exchanges=2))
    finally:
        participants.discard("speaks")
    assert run.state == "done", run.error
    assert list(texts(run).values()) == [["Yes.", "No.", "Yes.", "No."]]


def test_learning_from_people_takes_chats_with_two_bots() -> None:
    study = make_study()
    add_chat(study, "eliza", ["Hello"])
    with pytest.raises(Refused, match="complete chats with 1 bot, and two are needed"):
        create(study)


class Paid(FakeStepBot):
    """Bot whose every reply costs 4 of the currency."""

    max_cost = None
    least_bound = ReplyCost(cost=4.0)

    def cost_take(self, context: Any) -> ReplyCost:
        return ReplyCost(1, 1, 4.0)


@pytest.mark.django_db(transaction=True)
async def test_a_capped_run_is_charged_before_every_reply() -> None:
    from webapp.core.database import in_database

    def make() -> SelfPlayRun:
        return create(talked(), max_cost=10.0)

    run = await in_database(make)()
    bot, outside = Paid(name="paid"), meter_get()
    with run_capped(run):
        for _ in range(2):
            receipt = await meter_get().reserve(bot, Dialogue(id="c"), ReplyCost(cost=5.0))
            await meter_get().settle(receipt, ReplyCost(1, 1, 4.0))
        with pytest.raises(CapReached, match=f"the cap of run {run.pk}, 10, is reached: 8 is spent"):
            await meter_get().reserve(bot, Dialogue(id="c"), ReplyCost(cost=5.0))
    assert meter_get() is outside
    spent = await in_database(lambda: dict(Spending.objects.values_list("of", "spent_nano")))()
    assert spent == {"bot": 8 * 10**9, "run": 8 * 10**9, "project": 8 * 10**9}


def test_a_run_stops_with_a_word_at_its_cap(fake_bot: Callable[..., FakeStepBot]) -> None:
    study = talked()
    run = create(study, bots=["eliza"], n=3, max_cost=1.0)

    def capped(context: Any) -> str:
        raise CapReached(f"the cap of run {run.pk}, 1, is reached: 1 is spent")

    fake_bot("dear", reply=capped)
    SelfPlayRun.objects.filter(pk=run.pk).update(plan=create(study, bots=["dear"], n=3, max_cost=1.0).plan)
    run.refresh_from_db()
    done(run)
    assert run.state == "failed"
    assert "The run reached its cost limit" in run.error


def test_erasing_a_person_erases_the_chats_that_repeat_them(django_capture_on_commit_callbacks: Any) -> None:
    study = talked()
    run = done(create(study, n=6))
    person = Participant.objects.get(conversations__turns__text="The train was late again today")
    theirs = Turn.objects.filter(conversation__selfplay__run=run, text="The train was late again today")
    n_theirs, waits = theirs.count(), create(study)
    assert 0 < n_theirs < 6
    with django_capture_on_commit_callbacks(execute=True):
        participants_erase(participants=Participant.objects.filter(pk=person.pk))
    assert not theirs.exists()
    assert Conversation.objects.filter(selfplay__run=run).count() == 12 - n_theirs
    waits.refresh_from_db()
    assert waits.state == "cancelled"
    assert done(job_restart(job=waits, enqueue=False)).n_done == 8
    assert not theirs.exists()


def test_a_batch_that_repeats_an_erased_chat_is_not_stored() -> None:
    study = talked()
    run = create(study, bots=["eliza"], n=6)
    people_chats(study)
    Turn.objects.filter(conversation__study=study, text="The train was late again today").update(text="")
    done(run)
    assert not Turn.objects.filter(conversation__selfplay__run=run, text="").exists()


def test_simulated_chats_go_with_texts_run_and_study(django_capture_on_commit_callbacks: Any) -> None:
    study = talked()
    with django_capture_on_commit_callbacks(execute=True):
        run, other = done(create(study)), done(create(study))
        other.delete()
        assert Conversation.objects.filter(source="simulated").count() == 8
        texts_erase(study=study)
    assert not Conversation.objects.filter(source="simulated").exists()
    run = done(create(talked(key="t"), n=2))
    Study.objects.update(state=Study.State.DRAFT)
    with django_capture_on_commit_callbacks(execute=True):
        study_delete(study=Study.objects.get(key="t"), typed_key="t")
    assert not Conversation.objects.filter(source="simulated").exists()
    assert not SelfPlayRun.objects.filter(pk=run.pk).exists()


def command(*args: str) -> dict[str, Any]:
    out = StringIO()
    call_command("simulate", *args, "--json", stdout=out)
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def test_the_command_runs_inline_and_goes_on() -> None:
    talked()
    result = command("s", "--participant", "replayed", "--conversations", "2", "--seed", "3", "--inline")
    assert {bot_id: bot["conversations"] for bot_id, bot in result["bots"].items()} == {"eliza": 2, "parrot": 2}
    assert [pair["first"] for pair in result["pairs"]] == ["participant:replayed"] * 2
    assert command("--run", str(result["run"]), "--inline") == result


def test_the_command_needs_no_study() -> None:
    args = ("--participant", "scripted", "--bots", "eliza", "--conversations", "2", "--exchanges", "2", "--inline")
    result = command(*args)
    assert {bot_id: bot["conversations"] for bot_id, bot in result["bots"].items()} == {"eliza": 2}
    run = SelfPlayRun.objects.get(pk=result["run"])
    assert (run.study, run.is_simulated) == (None, True)
    assert run.title.startswith("Simulation")
    assert runs_newest(9) == [], "it is no self-play"
    assert runs_newest(9, simulated=True) == [run]


def test_a_run_without_a_study_has_its_page(client: Client) -> None:
    result = command(
        "--participant", "scripted", "--bots", "eliza", "--conversations", "1", "--exchanges", "1", "--inline"
    )
    client.force_login(make_staff(Right.READ))
    html = client.get(f"/dashboard/runs/{result['run']}/").content.decode()
    assert "scripted" in html
    assert "Compare with people" not in html


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 2),
        (["--participant", "scripted"], 2),
        (["s"], 2),
        (["s", "--participant", "replayed", "--run", "1"], 2),
        (["t", "--participant", "replayed", "--inline"], 1),
        (["s", "--participant", "nobody", "--inline"], 1),
        (["s", "--participant", "replayed", "--bots", "elisa", "--inline"], 1),
    ],
)
def test_the_command_called_wrongly(args: list[str], code: int) -> None:
    talked()
    with pytest.raises(CommandError) as error:
        command(*args)
    assert error.value.returncode == code


@pytest.mark.usefixtures("api_afresh")
def test_a_program_starts_a_run_and_reads_it() -> None:
    talked()
    assert Program(Right.READ).post("studies/s/simulations", {}).status_code == 403
    program = Program(Right.READ, Right.RUN, name="runs")
    asked = program.post("studies/s/simulations", {"participants": ["replayed"], "conversations": 2, "max_cost": 5.0})
    assert asked.status_code == 202, asked.content
    number = asked.json()["id"]
    run_job(SelfPlayRun.objects.get(pk=number))
    body = program.get(f"runs/{number}").json()
    assert (body["participants"], body["max_cost"], body["spent"], body["job"]["state"]) == (
        ["replayed"],
        5.0,
        0.0,
        "done",
    )
    assert {(one["first"], one["n_done"]) for one in body["by_pair"]} == {("participant:replayed", 2)}
    table = program.get(f"runs/{number}/tables/conversations")
    rows = [json.loads(line) for line in streamed(table).decode().splitlines()]
    assert {(row["source"], row["partner"]) for row in rows} == {(f"simulated-{number}", "participant:replayed")}
    response = program.post("studies/s/simulations", {"participants": ["replayed"], "conversations": 0})
    assert response.status_code == 422
    assert program.post("studies/none/simulations", {}).status_code == 404


def test_pages_start_a_run_show_it_and_mark_its_chats() -> None:
    study = talked()
    client = signed_in(Right.READ, Right.RUN)
    page = client.get(reverse("dashboard:study_simulated", args=["s"]))
    assert page.status_code == 200
    assert "Start simulation" in page.content.decode()
    sent = {"participant": "replayed", "n_conversations": 2, "seed": 1}
    refused = client.post(reverse("dashboard:study_simulated", args=["s"]), {**sent, "bots": "elisa"})
    assert refused.status_code == 400
    assert "eliza" in refused.content.decode()
    started = client.post(reverse("dashboard:study_simulated", args=["s"]), sent)
    run = SelfPlayRun.objects.get()
    assert started["Location"] == f"{reverse('dashboard:study_simulated', args=['s'])}?run={run.pk}"
    waiting = client.get(started["Location"])
    assert waiting.status_code == 200
    assert "data-live" in waiting.content.decode()
    done(run)
    for address in (
        started["Location"],
        reverse("dashboard:run", args=[run.pk]),
        reverse("dashboard:runs"),
        reverse("dashboard:study_prediction", args=["s"]),
        reverse("dashboard:job_live", args=["selfplay", run.pk]) + "?brief=1",
    ):
        assert client.get(address).status_code == 200, address
    chat = Conversation.objects.filter(selfplay__run=run).first()
    read = client.get(reverse("dashboard:conversation", args=[chat.pk]), follow=True)
    assert read.status_code == 200
    assert "simulated participant" in read.content.decode()
    also = client.post(reverse("dashboard:simulate"), {**sent, "study": study.key})
    assert also.status_code == 302
    assert client.get(reverse("dashboard:study_simulated", args=["s"]) + "?run=99").status_code == 404


def test_readers_see_runs_and_start_none(client: Client) -> None:
    talked()
    address = reverse("dashboard:study_simulated", args=["s"])
    reader = signed_in(Right.READ)
    assert reader.get(address).status_code == 200
    assert reader.post(address, {"participant": "replayed"}).status_code == 403
    assert reader.get(reverse("dashboard:simulate")).status_code == 403
    assert client.get(address).status_code == 302
