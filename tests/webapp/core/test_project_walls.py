"""Two projects on one server: whatever a member of one requests, they see and change nothing of the other.

Addresses come from the URLconf and calls from the API's description, so new routes are included.
"""

import json
import uuid
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core import serializers
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from tests.builders import make_conversation, make_rating, make_staff, make_study
from tests.webapp.api.programs import openapi
from tests.webapp.dashboard.test_rights import VALUES
from webapp.bots.declared_bots import declared_bot_save, origin_of
from webapp.bots.models import BotAside, BotHealth, DeclaredBot, Secret
from webapp.bots.services import bot_version_record_imported
from webapp.conversations.models import Conversation, Turn
from webapp.core.authentication import token_make
from webapp.core.models import ApiToken, Project
from webapp.core.project_scope import in_project
from webapp.core.projects import SUGGESTED_ROLES, project_create, project_roles, role_name
from webapp.core.rights import Right
from webapp.dashboard.urls import urlpatterns
from webapp.jobs.models import HybridFit, Job, MetricResult, MetricRun, SelfPlayConversation, SelfPlayRun
from webapp.ratings.models import Rating
from webapp.results.benchmark_data import benchmark_folder
from webapp.search.models import Note, SavedSearch
from webapp.studies.models import Participant, Study, Task
from webapp.transfer.models import SharedReport

pytestmark = pytest.mark.django_db
BOT = "quetzal-bot"
MARK = "Quetzalcoatl"
"""Word in every text of the hidden project."""
OWNED = (
    *(Study, Participant, Conversation, Rating, Job, SelfPlayRun, MetricRun, HybridFit, Note, SavedSearch),
    *(SharedReport, DeclaredBot, Secret, ApiToken, Project, BotHealth, BotAside, Task, Turn, MetricResult),
)


VISITORS: dict[Any, dict[str, str]] = {ApiToken: {"project": "open"}}


@pytest.fixture
def hidden() -> dict[str, Any]:
    """Return the values of addresses of things in a project that the visitors do not belong to."""
    admin = make_staff(*Right, username="admin")
    admin.is_superuser = True
    admin.save()
    hidden = project_create(actor=admin, key="hidden", name=f"{MARK} lab")
    project_create(actor=admin, key="open", name="Open lab")
    with in_project(hidden.key):
        study = make_study("hidden-study", name=f"{MARK} study")
        chat = make_conversation(study, n_exchanges=3, platform="prolific", external_id=f"{MARK}-pid")
        chat.turns.update(text=f"{MARK} said this")
        make_rating(chat)
        run = SelfPlayRun.objects.create(name=f"{MARK} run", plan={"bots": ["eliza"], "n_conversations": 1})
        spoken = Conversation.objects.create(source="selfplay", state="completed", bot=chat.bot)
        SelfPlayConversation.objects.create(run=run, bot_id="eliza", ordinal=0, conversation=spoken)
        secret = Secret.objects.create(name=f"{MARK}-secret", address=origin_of("https://bots.example/v1"), sealed="")
        declared_bot_save(
            bot_id=BOT,
            kind="endpoint",
            title=f"{MARK} bot",
            params={"base_url": "https://bots.example/v1", "model": f"{MARK}-model"},
            secret=secret,
        )
        BotHealth.objects.create(bot_id=BOT, n_failed=5, reason=MARK, set_aside_at=now(), failed_since=now())
        BotAside.objects.create(bot_id=BOT, began_at=now(), reason=MARK, n_failed=5)
        imported = bot_version_record_imported(bot_id=f"{MARK}-imported", source=MARK)
        Conversation.objects.create(source="import", state="completed", study=study, bot=imported, external_id=MARK)
        (benchmark_folder() / f"{'ab' * 16}.jsonl").write_text(MARK)
        fit = HybridFit.objects.create(study=study, request={"targets": [MARK]}, result={"title": MARK})
        job = Job.objects.create(kind="report", study=study, note=MARK, payload={"study": study.pk}, state="done")
        Job.objects.create(
            kind="benchmark",
            note=MARK,
            payload={"title": MARK, "study": study.key, "file": ""},
            key=MARK,
            state="failed",
            error=MARK,
        )
        Note.objects.create(conversation=chat, kind="tag", text=MARK)
        SavedSearch.objects.create(study=study, owner=admin, name=MARK, line=MARK)
        share = SharedReport.objects.create(
            study=study, name=MARK, digest="0" * 64, document=b"", report_made_at=study.created_at
        )
        token, _text = token_make(user=admin, name=f"{MARK} token", rights=["read"])
    return {
        "key": study.key,
        "fit_id": fit.pk,
        "participant_id": chat.participant_id,
        "conversation_id": chat.pk,
        "other_id": spoken.pk,
        "run_id": run.pk,
        "bot_id": BOT,
        "pk": [job.pk, share.pk, secret.pk, token.pk, fit.pk, run.pk, admin.pk],
    }


def rows_hidden() -> str:
    rows = [row for model in OWNED for row in model._base_manager.exclude(**VISITORS.get(model, {})).order_by("pk")]
    return serializers.serialize("json", rows)


def visitor(role: str) -> Client:
    user = make_staff(username=f"{role}-visitor")
    user.groups.add(*[group for group in project_roles("open") if role_name(group) == role])
    client = Client()
    client.force_login(user)
    return client


def addresses(values: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, address of hidden things, and the same address of things that do not exist."""
    for pattern in urlpatterns:
        names = pattern.pattern.converters
        if pattern.name is None or not names:
            continue
        numbers = values["pk"] if "pk" in names else [0]
        for number in numbers:
            real = {name: {**VALUES, **values, "pk": number}[name] for name in names}
            if real.keys() & values.keys():
                missing = {name: VALUES[name] for name in names}
                yield (
                    pattern.name,
                    reverse(f"dashboard:{pattern.name}", kwargs=real),
                    reverse(f"dashboard:{pattern.name}", kwargs=missing),
                )


def body(response: Any) -> str:
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return content.decode("utf-8", "replace")


def is_requested(role: str, address: str) -> bool:
    """Return True for all addresses of an owner, who has all rights, and a third of those of each other role.

    The other roles are refused most of them before anything is read. The third is drawn by the route's name, so that
    it is the same in every run.
    """
    return role == "Owner" or zlib.crc32(f"{role} {address}".encode()) % 3 == 0


@pytest.mark.parametrize("role", SUGGESTED_ROLES)
def test_pages_of_another_project_look_as_if_they_did_not_exist(hidden: dict[str, Any], role: str) -> None:
    client = visitor(role)
    before = rows_hidden()
    n_compared = 0
    absent: dict[tuple[str, str], int] = {}
    for name, real, missing in addresses(hidden):
        if not is_requested(role, name):
            continue
        for method in ("get", "post"):
            if (method, missing) not in absent:
                absent[method, missing] = getattr(client, method)(missing).status_code
            seen = getattr(client, method)(real)
            assert seen.status_code == absent[method, missing], (name, method, real)
            assert MARK not in body(seen), (name, method)
            n_compared += 1
    assert n_compared > (150 if role == "Owner" else 40)
    assert rows_hidden() == before


@pytest.mark.parametrize("role", SUGGESTED_ROLES)
def test_lists_and_forms_show_nothing_of_another_project(hidden: dict[str, Any], role: str) -> None:
    client = visitor(role)
    for pattern in urlpatterns:
        if pattern.name is not None and not pattern.pattern.converters:
            response = client.get(reverse(f"dashboard:{pattern.name}"), {"q": MARK, "search": MARK, "new": "1"})
            text = body(response).replace(f'value="{MARK}"', "").replace(f"={MARK}", "").replace(f"“{MARK}”", "")
            assert MARK not in text, pattern.name
            assert "hidden-study" not in text, pattern.name
            assert BOT not in text, pattern.name


def test_members_see_all_of_it(hidden: dict[str, Any]) -> None:
    """Without this the tests above could pass because nothing is shown to anybody."""
    client = Client()
    client.force_login(get_user_model().objects.get(username="admin"))
    client.post(reverse("dashboard:project_choose"), {"project": "hidden", "next": "/dashboard/"})
    n_shown = 0
    for name in ("studies", "bots", "runs", "jobs", "secrets", "tokens", "benchmark"):
        assert MARK in body(client.get(reverse(f"dashboard:{name}"))), name
    for _name, real, _missing in addresses(hidden):
        n_shown += client.get(real).status_code == 200
    assert n_shown > 25


API_VALUES = {
    "study": "no-such-study",
    "key": "no-such-study",
    "conversation_id": str(uuid.UUID(int=0)),
    "participant_id": str(uuid.UUID(int=0)),
    "part": "comparisons",
    "table": "conversations",
}
NUMBERS = {"id", "note"}
"""Parts of paths that name a row by its number or UUID; others have one value for hidden and for missing rows."""


def calls() -> Iterator[tuple[str, str, list[str]]]:
    for path, methods in openapi()["paths"].items():
        for method, described in methods.items():
            yield method, path, [row["name"] for row in described.get("parameters", []) if row["in"] == "path"]


def test_calls_with_a_token_of_another_project_find_nothing(hidden: dict[str, Any]) -> None:
    user = make_staff(username="caller")
    user.groups.add(*[group for group in project_roles("open") if role_name(group) == "Owner"])
    with in_project("open"):
        _row, text = token_make(user=user, name="calls", rights=[right.value for right in Right])
    client = Client(headers={"authorization": f"Bearer {text}"})
    before = rows_hidden()
    n_compared = 0
    for method, path, names in calls():
        rows = [(number, 0) for number in hidden["pk"]]
        rows += [(hidden[name], API_VALUES[name]) for name in ("conversation_id", "participant_id")]
        absent: dict[str, int] = {}
        for row, no_row in rows if NUMBERS & set(names) else [(0, 0)]:
            real, missing = path, path
            for name in names:
                usual = API_VALUES.get(name, VALUES.get(name, 0))
                theirs, nothing = (row, no_row) if name in NUMBERS else (hidden.get(name, usual), usual)
                real, missing = real.replace(f"{{{name}}}", str(theirs)), missing.replace(f"{{{name}}}", str(nothing))
            if missing not in absent:
                answer = client.generic(method.upper(), missing, json.dumps({}), content_type="application/json")
                absent[missing] = answer.status_code
            seen = client.generic(method.upper(), real, json.dumps({}), content_type="application/json")
            assert MARK not in body(seen), (method, real)
            if names:
                assert seen.status_code == absent[missing], (method, real, body(seen)[:300])
            n_compared += 1
    assert n_compared > 50
    assert rows_hidden() == before


def test_chats_of_a_study_are_checked_by_its_project_instead_of_one_by_one() -> None:
    admin = make_staff(*Right, username="admin")
    admin.is_superuser = True
    admin.save()
    lab = project_create(actor=admin, key="lab", name="Lab")
    with in_project(lab.key):
        theirs = make_study("theirs")
        make_conversation(theirs)
    own = make_study("own")
    make_conversation(own)
    with in_project(own.project_id):
        assert own.conversations.count() == 1
        assert "project" not in str(own.conversations.all().query)
        # Of a study that another project owns, there are none, whoever holds the study.
        assert theirs.conversations.count() == 0
        assert "project" in str(Conversation.objects.filter(study=own).query)
        # A prefetch uses the manager of its first study for all of them.
        studies = Study.everywhere.order_by("key").prefetch_related("conversations")
        assert [(study.key, study.conversations.all().count()) for study in studies] == [("own", 1), ("theirs", 0)]
