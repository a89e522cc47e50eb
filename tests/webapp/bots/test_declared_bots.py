"""The file of bots, and bots added in the browser: rows, what is refused, secrets, and the registry of each process."""

import json
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.test import Client

from chatbots.bots.base import BotError
from chatbots.registry import UnknownName
from chatbots.validation import ValuesError
from chatbots.yaml_registry import EntriesError, configured_bots
from tests.builders import force_bots, make_conversation, make_staff, make_study
from webapp.bots import declared_bots, selectors
from webapp.bots.declared_bots import (
    declared_bot_archive,
    declared_bot_make,
    declared_bot_save,
    origin_of,
    secret_delete,
    secret_open,
    secret_replace,
    secret_store,
    secrets_renew,
)
from webapp.bots.models import BotHealth, DeclaredBot, Secret
from webapp.bots.selectors import bot_entry_list, bot_find, bots_discover, bots_file_discover
from webapp.bots.services import bot_answered
from webapp.core.errors import Refused
from webapp.core.rights import Right

pytestmark = pytest.mark.django_db


URL = "https://models.example.org/v1"
KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    DeclaredBot.objects.all().delete()
    declared_bots.declared_discover()


def entry(**params: Any) -> dict[str, Any]:
    return {"bot_id": "lab", "kind": "endpoint", "title": "Lab", "params": {"model": "m", "base_url": URL, **params}}


def paths(**changes: Any) -> list[str]:
    with pytest.raises(ValuesError) as caught:
        declared_bot_make(**{**entry(), **changes})
    return [mistake.path for mistake in caught.value.mistakes]


def test_a_row_is_a_bot_of_every_process_and_a_change_another_identity() -> None:
    row = declared_bot_save(**entry())
    first = bot_find("lab")
    assert bot_find("lab") is first
    # Another process has stored a change: this one sees it by the row's revision.
    DeclaredBot.objects.update(params={"model": "m", "base_url": URL, "temperature": 0}, revision=row.revision + 1)
    second = bot_find("lab")
    assert second.identity.key != first.identity.key
    bot_answered(bot_id="lab", seconds=2)
    row.refresh_from_db()
    declared_bot_save(row=row, **entry(temperature=0, max_cost=5, price_in=0, price_out=0))
    assert not BotHealth.objects.exists(), "another bot has to answer again"
    bot_answered(bot_id="lab", seconds=2)
    declared_bot_save(row=row, **entry(temperature=0, max_cost=9, price_in=0, price_out=0))
    assert BotHealth.objects.get().answer_s == 2
    declared_bot_archive(row=row, is_archived=True)
    with pytest.raises(UnknownName):
        bot_find("lab")
    with pytest.raises(ValuesError, match="the id 'lab' is not available"):
        declared_bot_save(**entry())
    declared_bot_archive(row=row, is_archived=False)
    assert "lab" in {one.id for one in bot_entry_list()}


def test_all_mistakes_are_told_at_once_each_with_its_place(settings: Any, tmp_path: Path) -> None:
    assert paths(bot_id="No Id", params={"model": "", "temperature": "hot", "tempreature": 1}) == [
        "id",
        "params.model",
        "params.temperature",
        "params.tempreature",
    ]
    assert paths(kind="retrieval", params={}) == ["kind"]
    assert paths(title="x" * 201) == ["name"]
    assert paths(params={"model": "m\0"}) == ["params"]
    assert paths(params={"model": "m" * 60_000}) == ["params"]
    declared_bot_save(**entry())
    for taken in ("lab", "eliza"):
        with pytest.raises(ValuesError, match=f"the id '{taken}' is not available"):
            declared_bot_save(**{**entry(), "bot_id": taken})


def test_only_variables_that_the_server_allows_are_sent_and_only_where_they_may_go(settings: Any) -> None:
    assert paths(params={**entry()["params"], "api_key_env": "DATABASE_URL"}) == ["params.api_key_env"]
    settings.CONFAB_BOT_KEY_VARIABLES = {"LAB_KEY": "https://models.example.org", "ANY_KEY": ""}
    for name in ("LAB_KEY", "ANY_KEY"):
        declared_bot_make(**entry(api_key_env=name))
    other = {"model": "m", "base_url": "https://evil.example.org", "api_key_env": "LAB_KEY"}
    assert paths(params=other) == ["params.api_key_env"]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/v1", "http://localhost/v1", "http://[::1]/", "http://169.254.169.254/"]
)
def test_addresses_of_this_machine_and_of_private_networks_need_consent(settings: Any, url: str) -> None:
    settings.CONFAB_PRIVATE_ADDRESSES = False
    assert paths(params={"model": "m", "base_url": url}) == ["params.base_url"]
    settings.CONFAB_PRIVATE_ADDRESSES = True
    assert not declared_bot_make(**entry(base_url=url)).public_only  # type: ignore[attr-defined]


def test_local_models_lie_below_the_folders_that_the_server_lists(settings: Any, tmp_path: Path) -> None:
    inside, outside = tmp_path / "models", tmp_path / "other"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "m.gguf").touch()
    (inside / "link").symlink_to(outside)
    settings.CONFAB_MODEL_FOLDERS = [inside]
    for kind in ("transformers", "gguf"):
        made = {"kind": kind, "params": {"model": str(inside)}}
        assert declared_bot_make(**{**entry(), **made}).kind == kind
        for model in (outside, inside / "link", inside / ".." / "other"):
            assert paths(kind=kind, params={"model": str(model)}) == ["params.model"]
    declared_bot_make(**{**entry(), "kind": "transformers", "params": {"model": "org/model"}})


def test_a_row_that_makes_no_bot_any_more_is_listed_with_its_reason(settings: Any, tmp_path: Path) -> None:
    settings.CONFAB_MODEL_FOLDERS = [tmp_path]
    declared_bot_save(**{**entry(), "kind": "gguf", "params": {"model": str(tmp_path / "m.gguf")}})
    settings.CONFAB_MODEL_FOLDERS = []
    DeclaredBot.objects.update(revision=7)
    bots_discover()
    result = next(one for one in bot_entry_list() if one.id == "lab")
    assert not result.available
    assert "CONFAB_MODEL_FOLDERS" in str(result.reason)
    with pytest.raises(UnknownName, match="cannot be used"):
        bot_find("lab")


def test_a_secret_is_encrypted_and_sent_to_its_address_alone(settings: Any) -> None:
    secret = secret_store(name="lab key", address=URL, value=f" {KEY}\n")
    assert secret.address == "https://models.example.org:443"
    assert KEY not in secret.sealed
    assert secret_open(secret, f"{URL}/") == KEY
    for url in ("http://models.example.org/v1", "https://models.example.org:8443/v1", "https://evil.example.org", ""):
        with pytest.raises(BotError, match="only for"):
            secret_open(secret, url)
    assert paths(secret=secret, params={"model": "m", "base_url": "https://evil.example.org"}) == ["secret"]
    Secret.objects.update(address=origin_of("https://evil.example.org"))
    secret.refresh_from_db()
    with pytest.raises(BotError, match="changed in the database") as caught:
        secret_open(secret, "https://evil.example.org")
    assert KEY not in str(caught.value)


def test_a_secret_in_use_stays_and_its_bots_take_the_new_value() -> None:
    secret = secret_store(name="lab key", address=URL, value=KEY)
    declared_bot_save(**entry(), secret=secret)
    first: Any = bot_find("lab")
    assert first.key_source(URL) == KEY
    assert KEY not in json.dumps(first.identity.as_dict())
    secret_replace(secret=secret, value="another-key-0123")
    again: Any = bot_find("lab")
    assert again.key_source(URL) == "another-key-0123"
    assert again.identity.key == first.identity.key
    with pytest.raises(Refused, match="lab still uses this secret"):
        secret_delete(secret=secret)


@pytest.mark.parametrize("value", ["", " ", "two\nlines", "nul\0", "schlüssel", "x" * 5001])
def test_what_is_no_secret_is_refused_without_being_repeated(value: str) -> None:
    with pytest.raises(Refused) as caught:
        secret_store(name="s", address=URL, value=value)
    assert not value.strip() or value not in caught.value.message
    for name, address in (("", URL), ("n" * 65, URL), ("s", "ftp://x"), ("s", "https://" + "h" * 300)):
        with pytest.raises(Refused):
            secret_store(name=name, address=address, value=KEY)
    assert not Secret.objects.exists()


def test_keys_change_and_without_one_nothing_is_stored(settings: Any) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.CONFAB_SECRETS_KEYS = [old]
    secret = secret_store(name="s", address=URL, value=KEY)
    settings.CONFAB_SECRETS_KEYS = [new, old]
    assert secrets_renew() == 0
    secret.refresh_from_db()
    settings.CONFAB_SECRETS_KEYS = [new]
    assert secret_open(secret, URL) == KEY
    settings.CONFAB_SECRETS_KEYS = []
    assert secrets_renew() == 1
    with pytest.raises(BotError, match="CONFAB_SECRETS_KEY"):
        secret_open(secret, URL)
    with pytest.raises(Refused, match="to set CONFAB_SECRETS_KEY"):
        secret_store(name="t", address=URL, value=KEY)
    declared_bot_save(**entry(), secret=secret)
    assert "CONFAB_SECRETS_KEY" in str(bot_find("lab").unavailable_reason())


def test_lists_of_bots_hold_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    declared_bot_save(**entry(), secret=secret_store(name="s", address=URL, value=KEY))
    call_command("list_bots", "--json")
    out = capsys.readouterr().out
    assert '"lab"' in out
    assert KEY not in out


@pytest.fixture
def bots_file(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let `CONFAB_BOTS` name this file, which is not there yet, in a process that has just started."""
    settings.CONFAB_BOTS = tmp_path / "mine.yaml"
    monkeypatch.setattr(selectors.configured_bots, "file", None)
    yield settings.CONFAB_BOTS
    configured_bots.register(tmp_path / "nothing.yaml")


def declare(path: Path, *ids: str, at: int = 0, **params: object) -> None:
    path.write_text("".join(f"- {{id: {name}, kind: retrieval, params: {params or '{}'}}}\n" for name in ids))
    os.utime(path, ns=(at, at))  # two writes within the clock's tick are two all the same


@pytest.mark.django_db
def test_a_file_that_was_named_must_be_there(bots_file: Path, settings: Any) -> None:
    with pytest.raises(EntriesError, match=f"CONFAB_BOTS names {bots_file}, which does not exist"):
        bots_file_discover()
    for command in ("list_bots", "serve", "bot_host"):
        with pytest.raises(CommandError, match="which does not exist"):
            call_command(command, stdout=StringIO())
    settings.CONFAB_BOTS = settings.DATA_DIR / "bots.yaml"
    bots_file_discover()  # the usual one may be missing


@pytest.mark.django_db
def test_what_is_added_is_found_and_what_is_there_stays(bots_file: Path) -> None:
    declare(bots_file, "one")
    first = bot_find("one")
    assert bot_find("one") is first
    declare(bots_file, "one", "two", at=1, encoder="other")
    assert bot_find("two").name == "two"
    assert bot_find("one") is first
    bots_file.write_text("- {id: three, kind: retrival}")
    os.utime(bots_file, ns=(2, 2))
    assert bot_find("two").name == "two"  # a file in the middle of an edit
    with pytest.raises(UnknownName):
        bot_find("three")
    bots_file.unlink()
    assert bot_find("one") is first


@pytest.mark.django_db
def test_a_broken_entry_is_told_of_by_list_and_pages_and_the_others_go_on(bots_file: Path, client: Client) -> None:
    bots_file.write_text("- {id: one, kind: retrieval}\n- {id: mine, kind: retrival}\n- {id: one, kind: retrieval}\n")
    out = StringIO()
    call_command("list_bots", "--json", stdout=out)
    listed = {bot["id"]: bot for bot in json.loads(out.getvalue())}
    assert listed["one"]["available"]
    assert not listed["mine"]["available"]
    assert f"{bots_file}, entry 2 (mine): kind is 'retrival'" in listed["mine"]["reason"]
    assert "a second bot with the id 'one'" in listed["entry-3"]["reason"]
    with pytest.raises(UnknownName, match=r"entry 2 \(mine\): kind is 'retrival'"):
        bot_find("mine")
    client.force_login(make_staff(*Right))
    study = make_study("s", bots=["one"])
    force_bots(study, ["one", "mine"])
    for page in ("/", "/bots/", "/bots/mine/", "/studies/s/"):
        html = client.get(f"/dashboard{page}").content.decode()
        assert "entry 2 (mine): kind is &#x27;retrival&#x27;; did you mean retrieval?" in html, page
    assert make_conversation(study).bot.bot_id == "one"
