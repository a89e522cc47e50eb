"""The page Start and the page of a first link: four aims, rights, mistakes, and repeated submissions."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.builders import make_conversation, make_participant, make_study, signed_in
from webapp.bots.declared_bots import declared_discover
from webapp.bots.models import DeclaredBot, Secret
from webapp.bots.services import bot_answered
from webapp.conversations.models import Conversation
from webapp.core.clock import database_now
from webapp.core.models import Process
from webapp.core.processes import WORKER
from webapp.core.rights import Right
from webapp.dashboard import start_form
from webapp.jobs.engine import run_job
from webapp.jobs.models import Job, State
from webapp.ratings.models import Rating
from webapp.studies.models import Study, Task

pytestmark = pytest.mark.django_db
START = "/dashboard/start/"
TOKEN = "0" * 32
FORM = {"token": TOKEN, "aim": "rate", "contact": "lab@example.org", "organisation": "The lab"}
ENDPOINT = {"base_url": "https://models.example.org/v1", "model": "m", "new_key": "sk-very-secret"}


@pytest.fixture
def client() -> Client:
    return signed_in(*Right)


@pytest.fixture(autouse=True)
def forgotten(transactional_db: None) -> Iterator[None]:
    yield
    DeclaredBot.objects.all().delete()
    declared_discover()


def _first(key: str) -> str:
    return reverse("dashboard:study_first", args=[key])


def _started(client: Client, **fields: Any) -> Study:
    before = set(Study.objects.values_list("pk", flat=True))
    response = client.post(START, {**FORM, **fields})
    assert response.status_code == 302, response.context["form"].errors
    study = Study.objects.exclude(pk__in=before).get()
    assert response["Location"] == _first(study.key)
    assert client.get(_first(study.key)).status_code == 200
    return study


def test_a_free_bot_is_tested_and_rehearsed_without_a_question(client: Client) -> None:
    study = _started(client, bots=["eliza"])
    assert (study.state, study.protocol, study.bots, study.name) == (
        "draft",
        "chat",
        ["eliza"],
        "Rate one bot: Eliza (rules)",
    )
    assert (study.values.texts.organisation, study.values.texts.contact) == ("The lab", "lab@example.org")
    test = Job.objects.get()
    assert (test.kind, test.study) == ("bot_test", study)
    run_job(test)
    rehearsal = Job.objects.get(kind="rehearsal")
    assert (rehearsal.study, rehearsal.payload["people"]) == (study, start_form.PEOPLE)
    html = client.get(_first(study.key)).content.decode()
    assert "You can close this page" in html
    again = client.get(START).context["form"]
    assert (again["contact"].value(), again["organisation"].value()) == ("lab@example.org", "The lab")


def test_an_endpoint_is_stored_with_its_key_and_its_cost_is_asked(client: Client) -> None:
    study = _started(client, **ENDPOINT)
    row = DeclaredBot.objects.get()
    assert (study.bots, row.params, row.secret) == (
        ["m"],
        {"base_url": ENDPOINT["base_url"], "model": "m", "temperature": 0.7, "max_new_tokens": 200, "window": 0},
        Secret.objects.get(),
    )
    test = Job.objects.get()
    assert test.payload["people"] == 0
    assert ENDPOINT["new_key"] not in str(test.payload)
    Job.objects.filter(pk=test.pk).update(state=State.FAILED, error="m did not reply: the key was refused")
    html = client.get(_first(study.key)).content.decode()
    assert "the key was refused" in html
    assert "Test again" in html
    client.post(_first(study.key), {"what": "test"})
    assert Job.objects.filter(kind="bot_test", state=State.QUEUED).get().payload["bots"] == ["m"]
    client.post(_first(study.key), {"what": "test"})
    assert Job.objects.filter(kind="bot_test").count() == 2, "a running test is not repeated"


def test_the_same_page_submitted_twice_makes_one_study(client: Client) -> None:
    study = _started(client, **ENDPOINT)
    again = client.post(START, {**FORM, **ENDPOINT}, follow=True)
    assert again.redirect_chain[0][0] == _first(study.key)
    assert "This study was started before" in again.content.decode()
    assert (Study.objects.count(), DeclaredBot.objects.count(), Job.objects.count()) == (1, 1, 1)


def test_bots_are_compared(client: Client) -> None:
    study = _started(client, aim="compare", bots=["eliza", "parrot"], **ENDPOINT)
    assert set(study.bots) == {"eliza", "parrot", "m"}
    assert Job.objects.get().payload["people"] == 0


def test_prompts_are_compared_with_one_key(client: Client) -> None:
    study = _started(client, aim="prompts", prompt_b="Be brief.", **ENDPOINT)
    first, second = DeclaredBot.objects.order_by("pk")
    assert study.bots == [first.bot_id, second.bot_id]
    assert (first.title, second.title) == ("m, prompt A", "m, prompt B")
    assert ("system_prompt" in first.params, second.params["system_prompt"]) == (False, "Be brief.")
    assert first.secret == second.secret == Secret.objects.get()
    third = _started(client, aim="prompts", bots=[second.bot_id], prompt_b="Be kind.", token="1" * 32)
    assert len(third.bots) == 2
    assert DeclaredBot.objects.get(bot_id=third.bots[1]).secret == Secret.objects.get()


def test_stored_replies_are_judged(client: Client) -> None:
    none = client.post(START, {**FORM, "aim": "judge"})
    assert none.status_code == 400
    assert "Import a file" in none.content.decode()
    source = make_study("source")
    make_conversation(source, n_exchanges=2)
    Conversation.objects.update(state=Conversation.State.COMPLETED)
    study = _started(client, aim="judge", source="study:source")
    assert (study.protocol, study.values.marking.conversations_of) == ("turns", "source")
    assert study.values.texts.contact == "lab@example.org"
    run_job(Job.objects.get())
    assert Job.objects.filter(kind="rehearsal", study=study).count() == 1


def test_a_cached_model_is_chosen_without_a_download(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(start_form, "cached_language_models", lambda: ["org/small"])
    study = _started(client, bots=["cached:org/small"])
    row = DeclaredBot.objects.get()
    assert (study.bots, row.kind, row.params["model"], "allow_download" in row.params) == (
        ["small"],
        "transformers",
        "org/small",
        False,
    )


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({}, "bots", "Enter the address and model"),
        ({"bots": ["eliza", "parrot"]}, "bots", "Choose one bot, not 2"),
        ({"aim": "compare", "bots": ["eliza"]}, "bots", "Choose one more bot"),
        ({"aim": "prompts", "bots": ["eliza"], "prompt_b": "x"}, "bots", "has no system prompt"),
        ({"aim": "prompts", **ENDPOINT}, "prompt_b", "Enter the prompt"),
        ({"aim": "prompts", **ENDPOINT, "prompt_a": "x", "prompt_b": "x "}, "prompt_b", "the same"),
        ({"base_url": "https://a.example/v1"}, "model", "Enter the name of the model"),
        ({**ENDPOINT, "base_url": "ftp://x"}, "base_url", "http"),
        ({"bots": ["eliza"], "contact": ""}, "contact", "required"),
        ({"aim": "rob", "bots": ["eliza"]}, "aim", "valid choice"),
    ],
)
def test_a_mistake_stands_at_its_field_and_stores_nothing(
    client: Client, fields: dict[str, Any], field: str, said: str
) -> None:
    response = client.post(START, {**FORM, **fields})
    assert response.status_code == 400
    form: Any = response.context["form"]
    assert said in str(form.errors.get(field)), form.errors
    assert "sk-very-secret" not in response.content.decode()
    assert not any(model.objects.exists() for model in (Study, DeclaredBot, Secret, Job))


def test_without_the_right_to_add_bots_existing_ones_are_chosen() -> None:
    client = signed_in(Right.READ, Right.RUN, Right.ADMINISTER)
    html = client.get(START).content.decode()
    assert 'name="new_key"' not in html
    assert "Compare prompts" not in html
    assert client.post(START, {**FORM, **ENDPOINT}).status_code == 400
    assert not DeclaredBot.objects.exists()
    assert _started(client, bots=["eliza"]).bots == ["eliza"]
    reader = signed_in(Right.READ, Right.RUN, username="reader")
    assert reader.get(START).status_code == 403
    study = Study.objects.get()
    make_participant(study, is_synthetic=True)
    assert reader.post(_first(study.key), {"what": "open"}).status_code == 403
    assert Study.objects.get().state == "draft"


def test_a_rehearsal_that_nobody_finished_does_not_open_the_study(client: Client) -> None:
    study = _started(client, bots=["eliza"])
    Job.objects.filter(kind="bot_test").update(state=State.DONE, result={"bots": []})
    result = {"people": 8, "done": 0, "failed": ["no reply"] * 8, "steps": ["chat"] * 8}
    Job.objects.create(kind="rehearsal", study=study, state=State.DONE, result=result, payload={"people": 8})
    html = client.get(_first(study.key)).content.decode()
    assert "0 of 8 scripted participants finished. 8 got stuck in the chat." in html
    assert 'value="rehearse"' in html
    assert 'value="open"' not in html
    client.post(_first(study.key), {"what": "open"})
    assert Study.objects.get().state == "draft"


def test_the_question_about_cost_has_an_amount_where_prices_are_known(client: Client) -> None:
    study = _started(client, **ENDPOINT)
    Job.objects.update(state=State.DONE, result={"bots": []})
    bot_answered(bot_id="m", seconds=0.1)
    html = client.get(_first(study.key)).content.decode()
    assert "which may cost money. Confab cannot say how much, because a price" in html
    assert f"{reverse('dashboard:bot_edit', args=['m'])}?study={study.key}" in html
    # With prices of 1 and 2 for a million tokens: 200 tokens a reply, and prompts that grow by messages and replies.
    page = reverse("dashboard:bot_edit", args=["m"]) + f"?study={study.key}"
    edit = client.get(page)
    assert f'href="{_first(study.key)}"' in edit.content.decode()
    data = {**edit.context["form"].initial, "row": "m", "price_in": "1", "price_out": "2"}
    saved = client.post(page, {name: value for name, value in data.items() if value is not None})
    assert (saved.status_code, saved["Location"]) == (302, _first(study.key))
    bot_answered(bot_id="m", seconds=0.1)
    html = client.get(_first(study.key)).content.decode()
    amount = re.search(r"up to (\d+) replies from m, which may cost money. It costs at most ([\d.]+), in", html)
    assert amount is not None
    n_replies, most = int(amount[1]), float(amount[2])
    assert n_replies * 200 * 2e-6 < most < n_replies * (200 * 2e-6 + 7 * 450 * 1e-6)


def test_first_answers_of_a_judging_study(client: Client) -> None:
    source = make_study("source")
    chat = make_conversation(source, n_exchanges=2)
    Conversation.objects.update(state=Conversation.State.COMPLETED)
    study = _started(client, aim="judge", source="study:source")
    person = make_participant(study, is_synthetic=True)
    reply = chat.turns.filter(speaker="bot").first()
    task = Task.objects.create(participant=person, version=study.version, kind="turns")
    key = study.version.rubric.dimensions.order_by("position").first().key
    Rating.objects.create(
        task=task,
        turn=reply,
        participant=person,
        rubric=study.version.rubric,
        answers={key: 1},
        submitted_at=timezone.now(),
    )
    html = client.get(_first(study.key)).content.decode()
    assert "First answers" in html
    assert reply.text[:50] in html
    assert study.version.rubric.dimensions.get(key=key).title in html


def test_a_server_without_a_worker_says_so_before_anything_is_stored(client: Client) -> None:
    assert "No worker is running, so bots cannot be tested" in client.get(START).content.decode()
    study = _started(client, bots=["eliza"])
    assert "No worker is running, so nothing is tested" in client.get(_first(study.key)).content.decode()
    now = database_now()
    Process.objects.create(
        id=uuid.uuid4(), roles=[WORKER], pid=1, details={"queues": ["gpu"]}, began_at=now, heard_at=now
    )
    assert "No worker is running" not in client.get(START).content.decode()
    assert "No worker is running" not in client.get(_first(study.key)).content.decode()
