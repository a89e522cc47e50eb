"""Projects, roles, members and tokens survive a backup; a copied study joins the project of its importer."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from tests.builders import make_conversation, make_rating, make_staff, make_study
from tests.webapp.core.test_project_members import member
from webapp.core.authentication import token_make
from webapp.core.backups import backup_make, backup_restore
from webapp.core.errors import Refused
from webapp.core.models import ApiToken, Project
from webapp.core.project_scope import USUAL_PROJECT, in_project
from webapp.core.projects import SUGGESTED_ROLES, project_create, project_limit, project_roles, projects_of, role_name
from webapp.core.rights import Right, may_in
from webapp.jobs.models import Job
from webapp.studies.models import Study, StudyAgreement
from webapp.studies.study_agreements import agreement_ask
from webapp.transfer.exporters.base import ExportOptions
from webapp.transfer.import_file import import_conversations
from webapp.transfer.package.contents import package_pieces

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def data_dir(settings: Any, tmp_path: Path) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    settings.CONFAB_BOTS = settings.DATA_DIR / "bots.yaml"
    settings.CONFAB_METRICS = settings.DATA_DIR / "metrics.yaml"
    return settings.DATA_DIR


def who_may_what() -> dict[str, Any]:
    """Return everything about projects that must survive, as people notice it."""
    users = User.objects.order_by("username")
    return {
        "projects": list(Project.objects.order_by("key").values("key", "name", "monthly_cost_limit", "disk_limit_mb")),
        "roles": {
            project.key: sorted(role_name(group) for group in project_roles(project.key))
            for project in Project.objects.all()
        },
        "rights": {
            (user.username, project.key): [right.value for right in Right if may_in(user, project.key, right)]
            for user in users
            for project in Project.objects.all()
        },
        "members": {user.username: [project.key for project in projects_of(user)] for user in users},
        "studies": dict(Study.everywhere.values_list("key", "project")),
        "jobs": dict(Job.everywhere.values_list("pk", "project")),
        "tokens": dict(ApiToken.everywhere.values_list("digest", "project")),
        "agreements": list(StudyAgreement.everywhere.values_list("project", "study_key", "state")),
    }


@pytest.fixture
def token() -> str:
    """Make two projects with members of every role, a study in each, a job and an agreement; return a token of one."""
    admin: Any = make_staff(*Right, username="admin")
    for key in ("lab", "clinic"):
        project = project_create(actor=admin, key=key, name=f"The {key}")
        for role in SUGGESTED_ROLES:
            member(role, key, f"{key}-{role}")
        with in_project(key):
            study = make_study(f"{key}-study")
            Job.objects.create(kind="report", study=study, payload={"study": study.pk}, state="done")
    project_limit(project=project, monthly_cost_limit=12.5, disk_limit_mb=7)
    User.objects.get(username="lab-Reader").groups.add(Group.objects.get(name="clinic: Payer"))
    make_study("usual")
    with in_project("lab"):
        agreement_ask(study_key="clinic-study")
        _row, text = token_make(user=User.objects.get(username="lab-Owner"), name="t", rights=["read"])
    return text


def studies_of(token: str) -> list[str]:
    calls = Client(headers={"authorization": f"Bearer {token}"})
    return [row["key"] for row in calls.get("/api/v1/studies").json()["items"]]


def test_rights_members_tokens_and_the_project_of_each_study_survive_a_backup(token: str) -> None:
    before = who_may_what()
    assert before["rights"]["lab-Reader", "clinic"] == ["read", "private", "pay"]
    assert studies_of(token) == ["lab-study"]
    file, _backup = backup_make()
    Study.everywhere.update(project=USUAL_PROJECT)
    Job.everywhere.update(project=USUAL_PROJECT)
    ApiToken.everywhere.update(project=USUAL_PROJECT)
    StudyAgreement.everywhere.all().delete()
    Project.objects.filter(key="clinic").update(monthly_cost_limit=None, disk_limit_mb=None)
    Group.objects.exclude(project_role=None).delete()
    assert who_may_what() != before
    backup_restore(file)
    assert who_may_what() == before
    assert studies_of(token) == ["lab-study"]


def test_a_copied_study_joins_the_project_of_its_importer_and_brings_nothing_of_the_other(
    token: str, tmp_path: Path
) -> None:
    study = Study.everywhere.get(key="lab-study")
    make_rating(make_conversation(study, n_exchanges=3))
    package = tmp_path / "package.zip"
    package.write_bytes(b"".join(package_pieces(study, ExportOptions())))
    with in_project("clinic"):
        import_conversations(package, study_key="copied")
    import_conversations(package, study_key="copied-by-command")
    assert Study.everywhere.get(key="copied").project_id == "clinic"
    assert Study.everywhere.get(key="copied-by-command").project_id == USUAL_PROJECT
    assert studies_of(token) == ["lab-study"]
    with in_project("clinic"), pytest.raises((Refused, ValueError), match="not available") as refused:
        import_conversations(package, study_key="lab-study")
    assert "The lab" not in str(refused.value)
    assert Study.everywhere.filter(key="lab-study").count() == 1
