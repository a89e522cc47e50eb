"""Five rights: every address of the dashboard and of the admin, asked by staff with each of them."""

import uuid
from collections.abc import Callable, Collection
from functools import cache

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern, reverse

from tests.builders import make_conversation, make_rating, make_staff, make_study, signed_in
from webapp.core.rights import READY_GROUPS, Right
from webapp.dashboard.urls import urlpatterns
from webapp.studies.models import Study
from webapp.transfer.exporters.base import exporter_list

pytestmark = pytest.mark.django_db

POSTED_BY_READERS = {
    *("conversation_note", "study_keep", "run_keep", "theme", "tour", "study_reports", "study_export", "study_report"),
    *("tokens", "token_end", "project_choose", "study_note", "run_note"),
}
"""Addresses that take a POST of all who may read; tests/outside/snapshots/routes.txt holds the rights of every one."""
VALUES = {
    "key": "no-such-study",
    "part": "models",
    "step": "bots",
    "figure": "best-worst",
    "column": "words_user",
    "group": 0,
    "number": 0,
    "paper": "no-such-paper",
    "exchange": 1,
    "fit_id": 0,
    "participant_id": uuid.UUID(int=0),
    "conversation_id": uuid.UUID(int=0),
    "other_id": uuid.UUID(int=1),
    "model_id": "no-such-model",
    "bot_id": "no-such-bot",
    "run_id": 0,
    "kind": "selfplay",
    "what": "board",
    "metric": "no-such-metric",
    "name": "no-such-file",
    "pk": 0,
}


def address(pattern: URLPattern) -> str:
    """Return the pattern's address, of things that do not exist: rights are asked before anything is looked up."""
    names = pattern.pattern.converters
    unknown = names.keys() - VALUES.keys()
    assert not unknown, f"tell this test a value for {unknown}"
    return reverse(f"dashboard:{pattern.name}", kwargs={name: VALUES[name] for name in names})


def browser(*rights: Right) -> Client:
    return signed_in(*rights, username="-".join(rights) or "none")


@pytest.fixture
def browsers() -> Callable[[Collection[Right]], Client]:
    """Return the browser of staff with exactly these rights."""
    return cache(lambda rights: browser(*sorted(rights)))


def test_every_address_asks_for_its_rights(browsers: Callable[[Collection[Right]], Client]) -> None:
    """Ask with the rights that are needed and no other, and with all others: whatever lacks one right opens less."""
    every = frozenset(Right)
    for pattern in urlpatterns:
        if pattern.name is None:  # an old address, which leads to one that is tested here
            continue
        name = pattern.name
        asked = getattr(pattern.callback, "rights", None)
        assert asked is not None, f"{name} declares no right: see dashboard/access.py"
        where = address(pattern)
        for method in ("GET", "POST"):
            needed = frozenset(asked[method])
            assert Right.READ in needed, name
            answer = getattr(browsers(needed), method.lower())(where)
            assert answer.status_code != 403, (name, method, needed)
            if answer.status_code == 405:
                continue
            for lacking in needed:
                refused = getattr(browsers(every - {lacking}), method.lower())(where)
                assert refused.status_code == 403, (name, method, lacking)
                html = refused.content.decode()
                assert "Your account may not do this" in html, (name, method, lacking)
                assert "dash-main" not in html, (name, method, lacking)
            assert method == "GET" or needed != {Right.READ} or name in POSTED_BY_READERS, f"declare what {name} needs"


@pytest.fixture
def study() -> Study:
    result = make_study("s")
    person = make_conversation(result, n_exchanges=3, platform="prolific", external_id="PID-SECRET")
    make_rating(person)
    return result


@pytest.mark.parametrize("right", Right)
def test_a_file_with_private_data_needs_the_right_to_it(study: Study, right: Right) -> None:
    url = reverse("dashboard:study_export", args=["s"])
    rights = {Right.READ, right}
    client = browser(*sorted(rights))
    page = client.get(url, follow=True).content.decode()
    assert ('name="include_private"' in page) == (right == Right.PRIVATE)
    for exporter in exporter_list():
        table, own = exporter.name, {getattr(exporter, "right", Right.READ)}
        plain = client.get(url, {"what": table, "format": "csv"})
        assert plain.status_code == (200 if own <= rights else 403), table
        assert (f'value="{table}"' in page) == (own <= rights), table
        private = client.get(url, {"what": table, "format": "csv", "include_private": "on"})
        own |= {Right.PRIVATE} | ({Right.PAY} if hasattr(exporter, "has_codes") else set())
        assert private.status_code == (200 if own <= rights else 403), table


def test_what_nobody_may_press_is_not_shown(study: Study) -> None:
    reader, runner = browser(Right.READ), browser(Right.READ, Right.RUN)
    for name, args, text in [
        ("runs", [], "New run"),
        ("study_prediction", ["s"], "fit-form"),
        ("bot", ["eliza"], "data-try-form"),
        ("studies", [], "/dashboard/imports/"),
    ]:
        url = reverse(f"dashboard:{name}", args=args)
        assert text not in reader.get(url).content.decode(), name
        assert text in runner.get(url + "?new=1").content.decode() or name == "runs", name


LISTS = {
    "studies_study": {Right.READ},
    "studies_rubric": {Right.READ},
    "studies_consenttext": {Right.READ},
    "studies_participant": {Right.PRIVATE},
    "studies_task": {Right.PAY},
    "studies_item": {Right.READ},
    "conversations_conversation": {Right.READ},
    "conversations_bothostheartbeat": {Right.READ},
    "ratings_rating": {Right.READ},
    "bots_botversion": {Right.READ},
    "runs_selfplayrun": {Right.READ},
    "runs_metricrun": {Right.READ},
    "runs_hybridfit": {Right.READ},
    "runs_job": {Right.READ},
    "runs_metricversion": {Right.READ},
}


def test_every_record_of_ours_is_in_the_matrix() -> None:
    ours = [model._meta for model in admin.site._registry if model.__module__.startswith("webapp.")]
    assert {f"{meta.app_label}_{meta.model_name}" for meta in ours} == LISTS.keys()


def test_records_are_seen_added_and_deleted_by_right(
    study: Study, browsers: Callable[[Collection[Right]], Client]
) -> None:
    for name, needed in LISTS.items():
        url = reverse(f"admin:{name}_changelist")
        for right in Right:
            for rights in ({right}, {right, Right.READ}):
                status = browsers(frozenset(rights)).get(url).status_code
                assert status == (200 if needed | {Right.READ} <= rights else 403), (name, rights)
        reader = browsers(frozenset(needed | {Right.READ, Right.PRIVATE}))
        add = reader.get(reverse(f"admin:{name}_add"))
        assert add.status_code == 403, name
        listed = reader.get(url).content.decode()
        assert "delete_selected" not in listed, name


def test_ids_of_people_are_not_found_by_those_who_may_not_see_them(study: Study) -> None:
    for name in ("conversations_conversation", "ratings_rating"):
        url = reverse(f"admin:{name}_changelist")
        seen = {}
        for rights in ([Right.READ], [Right.READ, Right.PRIVATE]):
            client = signed_in(*rights, username=f"{name}{len(rights)}")
            seen[len(rights)] = client.get(url, {"q": "PID-SECRET"}).context["cl"].result_count
        assert seen == {1: 0, 2: 1}


def test_ready_groups_are_made_once_and_keep_what_they_were_given() -> None:
    def held(name: str) -> set[str]:
        return set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))

    for name, rights in READY_GROUPS.items():
        assert held(name) == {right.value for right in rights}
        assert Right.READ in rights
    Group.objects.get(name="Confab readers").permissions.clear()
    call_command("migrate", verbosity=0)
    assert held("Confab readers") == set()
    user = make_staff(username="g")
    user.groups.add(Group.objects.get(name="Confab analysts"))
    client = Client()
    client.force_login(user)
    assert client.get(reverse("dashboard:imports")).status_code == 200


def test_no_rights_open_the_admin_without_read() -> None:
    """Ask for every list, row, deletion and app of the admin with all rights but one: fewer open no more."""
    make_conversation(make_study())
    rows = {model: model._default_manager.first() for model in admin.site._registry}
    addresses = [reverse("admin:app_list", args=[app]) for app in {model._meta.app_label for model in rows}]
    for model, row in rows.items():
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        addresses += [reverse(f"{name}_changelist"), f"{reverse(f'{name}_changelist')}?q=a"]
        pk = row.pk if row is not None else 0
        addresses += [reverse(f"{name}_{view}", args=[pk]) for view in ("change", "delete", "history")]
    client = browser(*(right for right in Right if right != Right.READ))
    opened = {address for address in addresses if client.get(address).status_code == 200}
    assert not {address for address in opened if "/auth/" not in address}
