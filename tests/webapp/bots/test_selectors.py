"""Which bots there are: the file of configured bots, and what is added to it while Confab runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from chatbots.registry import UnknownName
from chatbots.yaml_registry import EntriesError, configured_bots
from tests.builders import force_bots, make_conversation, make_staff, make_study
from webapp.bots import selectors
from webapp.bots.selectors import bot_find, bots_file_discover
from webapp.core.rights import Right


@pytest.fixture
def bots_file(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let `CONFAB_BOTS` name this file, which is not there yet, in a process that has just started."""
    settings.CONFAB_BOTS = tmp_path / "mine.yaml"
    monkeypatch.setattr(selectors, "_registered_from", None)
    yield settings.CONFAB_BOTS
    configured_bots.register(tmp_path / "nothing.yaml")


def declare(path: Path, *ids: str, at: int = 0, **params: object) -> None:
    path.write_text("".join(f"- {{id: {name}, kind: retrieval, params: {params or '{}'}}}\n" for name in ids))
    os.utime(path, ns=(at, at))  # two writes within the clock's tick are two all the same


@pytest.mark.django_db
def test_a_file_that_was_named_must_be_there(bots_file: Path, settings: Any) -> None:
    with pytest.raises(EntriesError, match=f"CONFAB_BOTS names {bots_file}, and there is no such"):
        bots_file_discover()
    for command in ("list_bots", "serve", "bot_host"):
        with pytest.raises(CommandError, match="there is no such file"):
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
