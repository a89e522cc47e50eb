"""Adding bots in the browser: the form, its mistakes, a trial, copies, changes, the archive, and opening a study."""

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client

from tests.builders import make_staff, make_study, signed_in
from tests.chatbots.endpoint_server import says, serving
from webapp.bots.declared_bots import declared_discover
from webapp.bots.models import BotHealth, DeclaredBot, Secret, Spending
from webapp.bots.selectors import bot_find
from webapp.bots.services import bot_answered
from webapp.core.rights import Right
from webapp.dashboard.builder.base import Plan
from webapp.dashboard.builder.checklist import findings_of
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db
NEW = "/dashboard/bot-new/"
KEY = "sk-very-secret-0123456789"
ASKED = {
    "title": "Lab <b>one</b>",
    "bot_id": "lab",
    "base_url": "https://models.example.org/v1",
    "model": "m",
    "key": "new",
    "new_key": KEY,
    "temperature": "0",
    "more": "stop: ['User:']\nsend_seed: false",
}


@pytest.fixture
def client() -> Client:
    return signed_in(Right.READ, Right.RUN, Right.BOTS)


@pytest.fixture(autouse=True)
def forgotten(transactional_db: None) -> Iterator[None]:
    yield
    DeclaredBot.objects.all().delete()
    declared_discover()


def test_a_bot_is_added_with_its_key_changed_copied_and_archived(client: Client) -> None:
    response = client.post(NEW, ASKED, follow=True)
    assert response.status_code == 200
    html = response.content.decode()
    assert "Lab &lt;b&gt;one&lt;/b&gt;" in html
    assert KEY not in html
    row = DeclaredBot.objects.get()
    params = {"base_url": ASKED["base_url"], "model": "m", "temperature": 0, "stop": ["User:"], "send_seed": False}
    assert (row.params, row.secret) == (params, Secret.objects.get())
    edit = client.get("/dashboard/bots/lab/edit/").content.decode()
    assert KEY not in edit
    assert 'value="secret:lab" selected' in edit
    copied = client.get(f"{NEW}?from=lab").content.decode()
    assert "(copy)" in copied
    first = bot_find("lab")
    again = {**ASKED, "key": "secret:lab", "new_key": "", "system_prompt": "Be brief."}
    assert client.post("/dashboard/bots/lab/edit/", again).status_code == 302
    assert bot_find("lab").identity.key != first.identity.key
    assert client.post("/dashboard/bots/lab/archive/", {"archived": "1"}).status_code == 302
    assert "Archived bots (1)" in client.get("/dashboard/bots/").content.decode()
    assert client.get("/dashboard/bots/lab/").status_code == 404
    client.post("/dashboard/bots/lab/archive/", {"archived": "0"})
    assert "No bot matches" in client.get("/dashboard/bots/?q=lab+eliza").content.decode()
    assert "/dashboard/bots/lab/" in client.get("/dashboard/bots/?q=lab+not+tried").content.decode()


@pytest.mark.parametrize(
    ("title", "model", "bot_id"),
    [
        ("Süßes Modell 2", "m", "suesses-modell-2"),
        ("", "org/My.Model", "mymodel"),
        ("模型", "模型", "bot"),
        ("Parrot", "m", "parrot-2"),
    ],
)
def test_an_id_left_empty_is_derived_and_free(client: Client, title: str, model: str, bot_id: str) -> None:
    params = {**ASKED, "title": title, "model": model, "bot_id": ""}
    assert client.post(NEW, params).status_code == 302
    assert DeclaredBot.objects.get().bot_id == bot_id


def test_every_mistake_stands_at_its_field(client: Client) -> None:
    wrong = {
        **ASKED,
        "bot_id": "No Id",
        "model": "",
        "temperature": "hot",
        "base_url": "ftp://x",
        "new_key": "",
        "more": "tempreature: 1",
    }
    response = client.post(NEW, wrong)
    assert response.status_code == 400
    form: Any = response.context["form"]
    assert {"bot_id", "model", "temperature", "base_url", "new_key", "more"} == set(form.errors)
    assert "did you mean temperature" in str(form.errors["more"])
    for more in ("a: &x [1]\nb: *x", "- 1", 'stop: ["\\0"]', "temperature: 1", "x" * 20_001):
        assert client.post(NEW, {**ASKED, "more": more}).status_code == 400, more[:10]
    for field in ("title", "bot_id", "base_url", "model", "new_key", "system_prompt"):
        assert client.post(NEW, {**ASKED, field: "x" * 21_000}).status_code == 400, field
        assert client.post(NEW, {**ASKED, field: "nul\0"}).status_code == 400, field
    assert client.get(f"{NEW}?kind=retrieval").status_code == 404
    assert client.get(f"{NEW}?from=eliza").status_code == 404
    assert not DeclaredBot.objects.exists()
    assert not Secret.objects.exists()


@pytest.mark.parametrize("kind", ["transformers", "gguf"])
def test_models_are_added_by_a_form_of_their_own(client: Client, kind: str) -> None:
    assert client.get(f"{NEW}?kind={kind}").status_code == 200
    model = "org/model" if kind == "transformers" else "smollm2-135m-instruct"
    params = {"bot_id": "local", "model": model, "top_k": "20", "allow_download": "on"}
    assert client.post(f"{NEW}?kind={kind}", params).status_code == 302
    row = DeclaredBot.objects.get()
    assert (row.kind, row.title) == (kind, "local")
    assert row.params["top_k"] == 20
    assert client.post(f"{NEW}?kind={kind}", {**params, "bot_id": "other", "model": "/etc/passwd"}).status_code == 400


def test_a_bot_that_people_are_given_keeps_its_identity(client: Client) -> None:
    client.post(NEW, ASKED)
    bot_answered(bot_id="lab")
    study = make_study("s", bots=["lab", "eliza"])
    same = {**ASKED, "key": "secret:lab", "title": "Another name"}
    assert client.post("/dashboard/bots/lab/edit/", same).status_code == 302
    other = client.post("/dashboard/bots/lab/edit/", {**same, "model": "n"})
    assert other.status_code == 400
    assert "is collecting with this bot" in other.content.decode()
    assert (
        "Pause the study first"
        in client.post("/dashboard/bots/lab/archive/", {"archived": "1"}, follow=True).content.decode()
    )
    study.state = Study.State.PAUSED
    study.save()
    assert client.post("/dashboard/bots/lab/edit/", {**same, "model": "n"}).status_code == 302


def test_a_study_opens_when_each_configured_bot_has_answered_once(client: Client) -> None:
    client.post(NEW, ASKED)
    study = make_study("s", bots=["lab", "eliza"], state=Study.State.DRAFT)

    def leads() -> list[str]:
        return [one.lead for one in findings_of(Plan(study)) if one.tone == "stop"]

    assert "1 bot has not replied yet:" in leads()
    bot_answered(bot_id="lab", seconds=1.5)
    assert "1 bot has not replied yet:" not in leads()


async def test_a_bot_is_tried_before_it_is_stored() -> None:
    client = AsyncClient()
    await client.aforce_login(await sync_to_async(make_staff)(Right.READ, Right.BOTS))
    async with serving(says("Hello", " you.")) as server:
        params = {**ASKED, "base_url": f"http://127.0.0.1:{server.port}/v1"}
        response = await client.post(f"{NEW}try/", params)
    assert response.status_code == 200
    assert response.json()["text"] == "Hello you."
    assert server.headers[0]["authorization"] == f"bearer {KEY}"
    gone = await client.post(f"{NEW}try/", params)
    assert gone.status_code == 503
    assert "cannot be reached" in gone.json()["error"]
    wrong = await client.post(f"{NEW}try/", {**params, "temperature": "hot"})
    assert wrong.status_code == 400
    assert "Temperature" in wrong.json()["error"]
    assert KEY not in gone.content.decode() + wrong.content.decode()
    assert not await DeclaredBot.objects.aexists()
    assert (await client.post(NEW, {**params, "proof": response.json()["proof"]})).status_code == 302
    assert (await BotHealth.objects.aget(bot_id="lab")).answer_s is not None
    other = {**params, "bot_id": "other", "model": "n", "proof": response.json()["proof"]}
    assert (await client.post(NEW, other)).status_code == 302
    assert not await BotHealth.objects.filter(bot_id="other").aexists(), "another bot was tried"
    assert await Spending.objects.filter(key="lab").acount() <= 1
