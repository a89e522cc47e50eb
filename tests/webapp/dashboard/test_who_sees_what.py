"""Who sees recruitment ids, visit ids and completion codes; and the stock admin, which only shows."""

import io
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from functools import partial
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.builders import calls_forget, make_conversation, make_staff, make_study, signed_in
from tests.webapp.api.programs import openapi
from tests.webapp.conftest import CODES
from tests.webapp.dashboard.conftest import rate_some
from tests.webapp.pay.test_services import REASON
from webapp.conversations.models import Conversation
from webapp.core.authentication import token_make
from webapp.core.rights import Right
from webapp.dashboard.urls import urlpatterns
from webapp.pay.models import Decision
from webapp.pay.submissions import SubmissionKey
from webapp.studies.models import Study, Task
from webapp.transfer.exporters.base import exporter_list

pytestmark = pytest.mark.django_db


Visit = Callable[..., SubmissionKey]
PID, VISIT_ID, CODE_OF_STUDY = "pid-known", "ses-known", CODES["code_bot_failed"]
CODE_SHOWN = "COWN7777"
EVERY = frozenset(Right)
SHOWN = {
    "page study_people": {PID, CODE_SHOWN},
    "page of a visit": {PID, CODE_SHOWN},
    "table pay with private": {PID, CODE_SHOWN},
    "table chat_ratings with private": {CODE_SHOWN},
    "table ratings with private": {CODE_SHOWN},
    "package with private": {CODE_SHOWN},
    "table participants with private": {VISIT_ID},
    "call table ratings with private": {PID, CODE_SHOWN},
    "call package with private": {PID, CODE_SHOWN},
}
"""Places that show ids and codes to those who have every right."""


@pytest.fixture
def known(paid: Study, visit: Visit, settings: Any, tmp_path: Path) -> None:
    """Make two visits; the first was shown a code that the study had before."""
    settings.DATA_DIR = tmp_path
    settings.CONFAB_BOTS = str(tmp_path / "bots.yaml")
    settings.CONFAB_API_RATE = "100000/s"
    calls_forget()
    rated = visit("rated", "known")
    told = {"code": CODE_SHOWN, "link": ""}
    Task.objects.filter(participant=rated.participant).update(told=told)
    visit("bot_failed", "known-2")
    Decision.objects.create(
        participant_id=rated.participant,
        submission=rated.submission,
        action=Decision.Action.APPROVE,
        state=Decision.State.FAILED,
        error="Prolific answered 400",
    )


@pytest.mark.usefixtures("known")
def test_ids_need_private_and_codes_need_pay(paid: Study) -> None:
    everything = _seen(paid, EVERY, SHOWN)
    assert {place: everything[place] & texts for place, texts in SHOWN.items()} == SHOWN
    # Other sets of rights see no more than one of these; and who has fewer, no more at a place than who has more.
    payer = _seen(paid, EVERY - {Right.PRIVATE})
    assert not {place: result for place, result in payer.items() if result & {PID, VISIT_ID}}
    assert CODE_SHOWN in payer["page study_people"] & payer["page of a visit"]
    reader = _seen(paid, EVERY - {Right.PAY})
    assert PID in reader["record studies_participant"]
    # Who sets a study's codes reads them where they are set; not whom they were shown to.
    set_there = {place for place, result in reader.items() if CODE_OF_STUDY in result}
    assert not [place for place in set_there if place.startswith("table")]
    assert not {place: result for place, result in reader.items() if CODE_SHOWN in result}
    others = _seen(paid, EVERY - {Right.PAY, Right.ADMINISTER}, set_there)
    assert not {place: result for place, result in others.items() if CODE_OF_STUDY in result}


Request = Callable[[], Any]


def _seen(study: Study, rights: frozenset[Right], places: Collection[str] | None = None) -> dict[str, set[str]]:
    """Return the ids and codes that each of these places, or every place, shows."""
    user = make_staff(*rights, username="-".join(sorted(rights)))
    client = Client()
    client.force_login(user)
    token = token_make(user=user, name="t", rights=[*rights])[1]
    program = Client(headers={"Authorization": f"Bearer {token}"})
    result: dict[str, set[str]] = defaultdict(set)
    for place, ask in chain(_pages(client, study), _records(client), _files(client, study), _calls(program, study)):
        if places is None or place in places:
            response = ask()
            assert response.status_code < 500
            whole = _text_of(response)
            result[place] |= {text for text in (PID, VISIT_ID, CODE_SHOWN, CODE_OF_STUDY) if text in whole}
    return result


def _text_of(response: Any) -> str:
    whole = b"".join(response) if response.streaming else response.content
    if whole.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            whole = b"\n".join(map(archive.read, archive.namelist()))
    return whole.decode("utf-8", "replace") + json.dumps(dict(response.headers))


def _pages(client: Client, study: Study) -> Iterator[tuple[str, Request]]:
    chat = Conversation.objects.get(ratings__isnull=False)
    values = {
        "key": study.key,
        "participant_id": chat.participant_id,
        "conversation_id": chat.pk,
        "other_id": Conversation.objects.exclude(pk=chat.pk)[0].pk,
        "bot_id": "eliza",
        "model_id": "eliza",
        "part": "models",
        "figure": "best-worst",
        "column": "words_user",
        "kind": "export",
        "metric": "distinct_1",
        "paper": "grade2020",
        "number": 0,
        "what": "board",
        "name": "no-such-file",
        "group": 0,
        "exchange": 1,
        "fit_id": 1,
        "run_id": 1,
        "pk": 1,
    }
    steps = ("bots", "questions", "checks", "texts", "pay", "check")
    for pattern in filter(lambda one: one.name, urlpatterns):  # old addresses have no name
        names = pattern.pattern.converters
        for step in steps if "step" in names else ("",):
            path = {name: step if name == "step" else values[name] for name in names}
            url = reverse(f"dashboard:{pattern.name}", kwargs=path)
            yield f"page {pattern.name}{f' {step}' if step else ''}", partial(client.get, url)
    pay = client.get(reverse("dashboard:study_people", args=[study.key])).content.decode()
    decide = reverse("dashboard:study_pay_decide", args=[study.key])
    for link in re.findall(rf'href="([^"]*{chat.participant_id}[^"]*)"', pay):
        page = client.get(unescape(link.partition("#")[0]))
        assert page.status_code == 200
        yield "page of a visit", partial(_same, page)
        visits = re.findall(r'name="visit" value="([^"]+)"', page.content.decode())
        if not visits:  # the reader does not decide about pay
            continue
        visit = visits[0]
        fields = {"visit": visit, "person": visit, "amount": "1", "reason": REASON, "note": "n"}
        fields["asked"] = "00000000-0000-0000-0000-000000000001"
        for name, more in (
            ("form pay_sure", {"action": "bonus"}),
            ("form refused", {"action": "bonus", "amount": "many"}),
            ("form approve", {"action": "approve"}),
        ):
            response = client.post(decide, fields | more)
            assert response.status_code in (200, 302, 400), name
            yield name, partial(_same, response)
            if response.status_code == 302:
                yield f"{name} after", partial(client.get, response["Location"].partition("#")[0])


def _same(response: Any) -> Any:
    return response


def _records(client: Client) -> Iterator[tuple[str, Request]]:
    for model in admin.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        if not model.__module__.startswith("webapp."):
            continue
        yield f"record {name}", partial(client.get, reverse(f"admin:{name}_changelist"))
        for one in model._default_manager.all()[:2]:
            for action in ("change", "history", "delete"):
                url = reverse(f"admin:{name}_{action}", args=[one.pk])
                yield f"record {name} {action}", partial(client.get, url)


def _files(client: Client, study: Study) -> Iterator[tuple[str, Request]]:
    for private in ({}, {"include_private": "on"}):
        suffix = " with private" if private else ""
        url = reverse("dashboard:study_export", args=[study.key])
        for exporter in exporter_list():
            params = {"what": exporter.name, "format": "csv", "include_failed": "on", **private}
            yield f"table {exporter.name}{suffix}", partial(client.get, url, params)
        url = reverse("dashboard:study_package", args=[study.key])
        yield f"package{suffix}", partial(client.post, url, {"include_failed": "on", **private})


def _calls(client: Client, study: Study) -> Iterator[tuple[str, Request]]:
    values = {"key": study.key, "part": "models", "id": Conversation.objects.all()[0].pk}
    for private in ({}, {"include_private": "true"}):
        suffix = " with private" if private else ""
        for path, methods in openapi()["paths"].items():
            takes_private = "/studies/{key}/tables/" in path or path.endswith("/package")
            if "get" not in methods or "/runs/" in path or (private and not takes_private):
                continue
            tables = [one.name for one in exporter_list()] if "{table}" in path else [""]
            for table in tables:
                where = path.replace("{table}", table)
                for name, value in values.items():
                    where = where.replace(f"{{{name}}}", str(value))
                where = re.sub(r"\{\w+\}", "1", where)
                params = {"include_failed": "true", **private}
                operation = methods["get"]["operationId"]
                yield f"call {f'{operation} {table}'.strip()}{suffix}", partial(client.get, where, params)


def test_a_study_and_its_rubric_are_read_and_not_changed(chief: Client) -> None:
    study = make_study("s", consent_text="<b>Mine</b>", code_rated="SECRET1", link_rated="https://x.org/SECRET2")
    url = reverse("admin:studies_study_change", args=[study.pk])
    for client in (chief, signed_in(Right.READ)):
        page = client.get(url)
        html = page.content.decode()
        assert page.status_code == 200
        assert "&lt;b&gt;Mine&lt;/b&gt;" in html
        assert "SECRET" not in html
        assert "<textarea" not in html
        assert reverse("dashboard:study_build", args=["s"]) in html
        assert client.post(url, {"name": "x"}).status_code == 403
        assert client.get(reverse("admin:studies_study_add")).status_code == 403
        assert client.get(reverse("admin:studies_study_delete", args=[study.pk])).status_code == 403
        rubric = reverse("admin:studies_rubric_change", args=[study.rubric_id])
        assert "How fluent were the replies" in client.get(rubric).content.decode()
        assert client.post(rubric, {"low": 0}).status_code == 403


def test_lists_ask_as_often_for_more_rows(chief: Client) -> None:
    study = make_study("s")
    rate_some(study, 2)
    lists = [
        *("studies_study", "studies_rubric", "studies_participant", "studies_task"),
        *("conversations_conversation", "ratings_rating", "bots_botversion"),
    ]

    def count(name: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert chief.get(reverse(f"admin:{name}_changelist")).status_code == 200
        return len(queries)

    count(lists[0])
    before = {name: count(name) for name in lists}
    rate_some(study, 5)
    assert {name: count(name) for name in lists} == before


def test_texts_are_read_and_not_written(chief: Client) -> None:
    conversation = make_conversation(make_study("s"), n_exchanges=2)
    address = reverse("admin:conversations_conversation_change", args=[conversation.pk])
    html = chief.get(address).content.decode()
    assert "message 0" in html
    assert "<textarea" not in html
    assert chief.post(address, {"state": "withdrawn"}).status_code == 403
    assert chief.get(reverse("admin:conversations_conversation_add")).status_code == 403
