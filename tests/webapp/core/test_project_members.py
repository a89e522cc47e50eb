"""Members of projects: roles and rights, the switcher, shared bots, moves of studies, tokens, commands."""

import json

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from tests.builders import make_conversation, make_staff, make_study, signed_in
from webapp.bots import declared_bots
from webapp.bots.declared_bots import declared_bot_archive, declared_bot_save, declared_bot_share
from webapp.bots.models import DeclaredBot
from webapp.bots.selectors import bot_entry_list, bot_name, bots_unknown
from webapp.core.authentication import token_make
from webapp.core.errors import Refused
from webapp.core.models import ApiToken, Project, ProjectRole
from webapp.core.project_scope import USUAL_PROJECT, ProjectUndecided, enter_project, in_project, leave_project
from webapp.core.projects import SUGGESTED_ROLES, project_create, project_roles, projects_of, role_name, role_save
from webapp.core.rights import READY_GROUPS, Right, may, may_in
from webapp.jobs.models import HybridFit, Job
from webapp.studies.models import Study
from webapp.studies.project_moves import study_accept, study_offer

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> User:
    user = make_staff(*Right, username="admin")
    assert isinstance(user, User)
    return user


@pytest.fixture
def lab(admin: User) -> Project:
    return project_create(actor=admin, key="lab", name="Speech lab")


def member(role: str, key: str = "lab", name: str = "") -> User:
    user = make_staff(username=name or role.lower())
    assert isinstance(user, User)
    user.groups.add(next(group for group in project_roles(key) if role_name(group) == role))
    return user


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize("name", READY_GROUPS)
def test_groups_of_before_keep_exactly_their_rights_in_the_usual_project(name: str, lab: Project) -> None:
    user = make_staff(username="g")
    user.groups.add(Group.objects.get(name=name))
    user = User.objects.get(pk=user.pk)
    assert {right for right in Right if may(user, right)} == set(READY_GROUPS[name])
    with in_project("lab"):
        assert not any(may(user, right) for right in Right)
    assert [project.key for project in projects_of(user)] == [USUAL_PROJECT]


@pytest.mark.parametrize("role", SUGGESTED_ROLES)
def test_a_role_holds_in_its_project_only(role: str, lab: Project) -> None:
    user = member(role)
    assert {right for right in Right if may_in(user, "lab", right)} == set(SUGGESTED_ROLES[role])
    assert not any(may_in(user, USUAL_PROJECT, right) for right in Right)


def test_the_switcher_and_links_choose_the_project_of_a_member_of_two(lab: Project) -> None:
    make_study("here", name="Study of Everything")
    with in_project("lab"):
        make_study("there", name="Study of the lab")
    user = member("Reader")
    user.groups.add(Group.objects.get(name="Confab analysts"))
    client = browser(user)
    studies = reverse("dashboard:studies")
    page = client.get(studies).content.decode()
    assert "Study of Everything" in page
    assert "Study of the lab" not in page
    assert "Speech lab" in page
    linked = client.get(reverse("dashboard:study", args=["there"]))  # a link from a colleague opens at once
    assert linked.status_code == 200
    assert "Study of the lab" in linked.content.decode()
    assert "Study of Everything" in client.get(studies).content.decode()
    client.post(reverse("dashboard:project_choose"), {"project": "lab"})
    page = client.get(studies).content.decode()
    assert "Study of the lab" in page
    assert "Study of Everything" not in page
    client.post(reverse("dashboard:project_choose"), {"project": "no-such"})
    assert "Study of the lab" in client.get(studies).content.decode()


def test_a_linked_page_needs_the_rights_of_its_own_project(lab: Project) -> None:
    with in_project("lab"):
        make_study("there")
    user = member("Reader")
    user.groups.add(Group.objects.get(name="Confab administrators"))
    client = browser(user)
    assert client.get(reverse("dashboard:study_console", args=["there"])).status_code in (403, 404)
    assert client.post(reverse("dashboard:study_archive", args=["there"])).status_code in (403, 404)
    assert Study.everywhere.get(key="there").archived_at is None


def test_a_page_that_forgets_its_rights_fails_instead_of_showing_rows() -> None:
    enter_project("")
    try:
        with pytest.raises(ProjectUndecided):
            list(Study.objects.all())
    finally:
        leave_project()


def test_owners_add_members_and_roles_and_grant_no_more_than_they_have(lab: Project) -> None:
    owner = member("Owner")
    client = browser(owner)
    people = reverse("dashboard:people")
    readers = next(group for group in project_roles("lab") if role_name(group) == "Reader")
    added = client.post(people, {"username": "new", "email": "", "groups": [readers.pk]})
    assert "set-password/" in added.content.decode()
    newcomer = User.objects.get(username="new")
    assert may_in(newcomer, "lab", Right.READ)
    assert not may_in(newcomer, USUAL_PROJECT, Right.READ)
    page = client.get(people).content.decode()
    assert "new" in page
    assert "admin@" not in page
    assert "Confab analysts" not in page
    client.post(reverse("dashboard:project_change"), {"action": "role", "name": "Auditor", "rights": ["private"]})
    assert ProjectRole.objects.get(project=lab, name="Auditor")
    client.post(reverse("dashboard:project_change"), {"action": "role", "name": "a" * 61, "rights": ["private"]})
    assert not ProjectRole.objects.filter(name__startswith="aaa").exists(), "a longer name is refused, never cut"
    everything = Group.objects.get(name="Confab administrators")
    client.post(reverse("dashboard:person_change", args=[newcomer.pk]), {"action": "groups", "groups": everything.pk})
    assert not newcomer.groups.filter(pk=everything.pk).exists()
    with pytest.raises(Refused, match="Only owners"):
        role_save(actor=member("Payer"), key="lab", name="More", rights=["administer"])
    readers.user_set.add(newcomer)
    refused = client.post(reverse("dashboard:person_change", args=[newcomer.pk]), {"action": "deactivate"}, follow=True)
    assert "Only administrators of the server" in refused.content.decode()
    assert User.objects.get(pk=newcomer.pk).is_active


def test_a_project_keeps_somebody_with_all_rights(lab: Project, admin: User) -> None:
    owners = next(group for group in project_roles("lab") if role_name(group) == "Owner")
    with pytest.raises(Refused, match="keep all rights"):
        role_save(actor=User.objects.get(pk=admin.pk), key="lab", name="Owner", rights=["read"], group=owners)


def test_only_administrators_of_the_server_create_projects(lab: Project) -> None:
    with pytest.raises(Refused, match="administrators of the server"):
        project_create(actor=member("Owner"), key="mine", name="Mine")
    assert (
        "Create a project"
        not in browser(member("Owner", name="o2")).get(reverse("dashboard:projects")).content.decode()
    )


def test_a_study_key_of_another_project_is_not_available_and_says_no_more(lab: Project) -> None:
    make_study("taken", name="Quetzalcoatl")
    client = browser(member("Owner"))
    answer = client.post(reverse("dashboard:study_new"), {"name": "Ours", "key": "taken", "protocol": "chat"})
    page = answer.content.decode()
    assert "not available" in page
    assert "Quetzalcoatl" not in page
    assert Study.everywhere.filter(key="taken").count() == 1


def test_a_shared_bot_is_used_by_all_and_changed_by_its_project(lab: Project, admin: User) -> None:
    row = declared_bot_save(
        bot_id="ours", kind="endpoint", title="Ours", params={"base_url": "https://bots.example/v1", "model": "m"}
    )
    owner = browser(member("Owner"))
    with in_project("lab"):
        assert bots_unknown(["ours"])
        assert "ours" not in [entry.id for entry in bot_entry_list()]
    assert owner.get(reverse("dashboard:bot", args=["ours"])).status_code == 404
    assert browser(admin).post(reverse("dashboard:bot_share", args=["ours"]), {"shared": "1"}).status_code == 302
    assert owner.get(reverse("dashboard:bot", args=["ours"])).status_code == 200
    with in_project("lab"):
        assert not bots_unknown(["ours"])
    for name in ("bot_edit", "bot_archive", "bot_share"):
        assert owner.post(reverse(f"dashboard:{name}", args=["ours"]), {"archived": "1"}).status_code == 404
    row.refresh_from_db()
    assert row.archived_at is None
    declared_bot_share(row=row, is_shared=False)
    with in_project("lab"):
        assert bots_unknown(["ours"])


def test_a_process_that_has_read_no_rows_shows_no_bot_of_another_project(
    lab: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared_bot_save(
        bot_id="ours", kind="endpoint", title="Ours", params={"base_url": "https://bots.example/v1", "model": "m"}
    )
    for name, value in (("_projects", {}), ("_has_read", False)):
        monkeypatch.setattr(declared_bots, name, value)
    with in_project("lab"):
        assert not declared_bots.is_visible("ours")
        assert bot_name("ours") == "ours"
    monkeypatch.setattr(declared_bots, "_has_read", False)
    declared_bot_archive(row=declared_bots.declared_bot_of("ours"), is_archived=True)
    with in_project("lab"):
        assert not declared_bots.is_visible("ours")
    assert declared_bots.is_visible("ours")


def test_a_row_of_another_project_neither_hides_a_bot_of_the_server_nor_shows_its_error(lab: Project) -> None:
    row = DeclaredBot.objects.create(bot_id="eliza", kind="endpoint", title="Quetzalcoatl", params={})
    with in_project("lab"):
        entries = {entry.id: entry.name for entry in bot_entry_list()}
        assert entries["eliza"] == "Eliza (rules)"
        assert "Quetzalcoatl" not in entries.values()
        assert not bots_unknown(["eliza"])
    row.delete()
    declared_bots.declared_discover()
    with in_project("lab"):
        assert not bots_unknown(["eliza"])


def test_a_study_moves_with_its_jobs_once_the_other_side_accepts(lab: Project, admin: User) -> None:
    study = make_study("wanders")
    make_conversation(study, n_exchanges=1)
    Job.objects.create(kind="report", study=study, payload={})
    HybridFit.objects.create(study=study, request={})
    with pytest.raises(Refused, match="not available"):
        study_offer(study=study, key="nowhere")
    browser(admin).post(reverse("dashboard:project_change"), {"action": "offer", "study": "wanders", "to": "lab"})
    assert Study.everywhere.get(key="wanders").project_id == USUAL_PROJECT
    owner = browser(member("Owner"))
    assert "wanders" in owner.get(reverse("dashboard:projects")).content.decode()
    owner.post(reverse("dashboard:project_change"), {"action": "accept", "study": "wanders"})
    assert Study.everywhere.get(key="wanders").project_id == "lab"
    with in_project("lab"):
        assert Job.objects.count() == HybridFit.objects.count() == 1
    with in_project(USUAL_PROJECT):
        assert not Job.objects.exists()
        assert not Study.objects.filter(key="wanders").exists()


def test_a_study_with_a_bot_that_the_other_project_lacks_stays(lab: Project) -> None:
    declared_bot_save(
        bot_id="ours", kind="endpoint", title="Ours", params={"base_url": "https://bots.example/v1", "model": "m"}
    )
    study = make_study("stays", bots=["ours"])
    study_offer(study=study, key="lab")
    with pytest.raises(Refused, match="bots that this project does not have"):
        study_accept(study=study)
    assert Study.everywhere.get(key="stays").project_id == USUAL_PROJECT


def test_a_token_acts_in_the_project_where_it_was_made(lab: Project) -> None:
    make_study("here")
    with in_project("lab"):
        make_study("there")
        token, text = token_make(user=member("Owner"), name="t", rights=["read", "run"])
    calls = Client(headers={"authorization": f"Bearer {text}"})
    assert [row["key"] for row in calls.get("/api/v1/studies").json()["items"]] == ["there"]
    assert calls.get("/api/v1/studies/here").status_code == 404
    token.user.groups.clear()
    assert calls.get("/api/v1/studies").status_code == 403


def test_commands_work_in_all_projects_or_in_one(lab: Project, capsys: pytest.CaptureFixture[str]) -> None:
    make_study("here")
    with in_project("lab"):
        make_study("there")

    def keys(*arguments: str) -> set[str]:
        call_command("list_studies", "--json", *arguments)
        return {study["key"] for study in json.loads(capsys.readouterr().out)}

    assert keys() >= {"here", "there"}
    assert keys("--project", "lab") == {"there"}
    with pytest.raises(CommandError, match="there is no project 'no'; use one of: default, lab"):
        keys("--project", "no")
    call_command("api_token", "make", "--user", member("Owner").username, "--name", "x", "--project", "lab")
    assert ApiToken.everywhere.get(name="x").project_id == "lab"


def test_the_admin_opens_to_superusers_once_there_are_several_projects(admin: User) -> None:
    client = signed_in(Right.READ, username="reader")
    changes = reverse("admin:studies_study_changelist")
    assert client.get(changes).status_code == 200
    project_create(actor=admin, key="lab", name="Lab")
    assert client.get(changes).status_code == 403
    User.objects.filter(username="reader").update(is_superuser=True)
    assert client.get(changes).status_code == 200
