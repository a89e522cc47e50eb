"""The queue of jobs is shared by all projects, and shows jobs of other projects as a bare count."""

import re

import pytest
from django.urls import reverse
from django.utils.timezone import now

from tests.builders import make_staff, make_study
from tests.webapp.core.test_project_members import browser, member
from webapp.core.project_scope import in_project
from webapp.core.projects import project_create
from webapp.core.rights import Right
from webapp.jobs.models import Job
from webapp.studies.models import Study

pytestmark = pytest.mark.django_db


def make_export(study: Study, **fields: object) -> Job:
    return Job.objects.create(kind="export", study=study, payload={"what": "messages", "format": "csv"}, **fields)


def test_jobs_of_other_projects_are_a_bare_count() -> None:
    admin = make_staff(*Right, username="admin")
    for key in ("ours", "theirs"):
        project_create(actor=admin, key=key, name=f"Lab {key}")  # type: ignore[arg-type]
    with in_project("theirs"):
        hidden = make_study("hidden", name="Quetzalcoatl")
        make_export(hidden, state="running", holder="other-host:1:x", heartbeat_at=now())
        make_export(hidden)
        make_export(hidden, note="Quetzalcoatl")
    with in_project("ours"):
        study = make_study("ours-study", name="Our study")
        first, second = make_export(study), make_export(study)
        later = Job.objects.create(kind="report", study=study, payload={"study": study.pk})
    with in_project("theirs"):
        make_export(hidden)
    client = browser(member("Owner", "ours"))
    for name in ("jobs", "jobs_live", "home"):
        response = client.get(reverse(f"dashboard:{name}"))
        rows = {row.job.pk: (row.place, row.before, row.n_of_others) for row in response.context["rows"]}
        assert rows == {
            first.pk: (3, "", 3),
            second.pk: (4, "Export of messages", 3),
            later.pk: (5, "Export of messages", 3),
        }
        page = " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())
        assert "3 jobs of other projects are ahead" in page
        assert "Quetzalcoatl" not in page
        assert "hidden" not in page
    owner = browser(member("Owner", "theirs", "other"))
    rows = owner.get(reverse("dashboard:jobs")).context["rows"]
    assert [(row.place, row.n_of_others) for row in rows] == [(0, 0), (1, 0), (2, 0), (6, 3)]
