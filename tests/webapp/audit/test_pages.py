"""The page and the API of the audit log: search, paging, the state of the chain, CSV, and projects."""

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from tests.builders import make_staff, make_study, signed_in
from tests.webapp.audit.test_chain import unguarded, written  # noqa: F401
from webapp.audit.chain import pending_write
from webapp.audit.models import AuditEntry
from webapp.core.audit_trail import BACKUP, DOWNLOAD, ERASE, LINKS_CREATE, record
from webapp.core.authentication import token_make
from webapp.core.project_scope import in_project
from webapp.core.projects import project_create
from webapp.core.rights import Right
from webapp.dashboard import audit_log

pytestmark = pytest.mark.django_db
PAGE = "/dashboard/settings/audit/"


@pytest.fixture
def admin() -> Client:
    client = signed_in(Right.READ, Right.ADMINISTER, username="ada")
    pending_write()
    return client


def page(client: Client, **query: Any) -> str:
    response = client.get(PAGE, query)
    assert response.status_code == 200, response.content.decode()
    return str(response.content.decode())


def test_an_entry_says_who_did_what_to_what_and_from_where(admin: Client) -> None:
    study = make_study("lab")
    admin.post(reverse("dashboard:study_links", args=["lab"]), {"n": "3"})
    pending_write()
    entry = AuditEntry.everywhere.get(action="links.create")
    html = page(admin, action="links.create")
    for words in ("Created one-time links", "links: 3", "ada", "study lab", "Dashboard, 127.0.0.1"):
        assert words in html
    study.delete()
    get_user_model().objects.filter(username="ada").update(is_superuser=True)
    assert f"study {entry.object_id}" in page(admin, action="links.create")
    get_user_model().objects.create_superuser("eve")
    eve = Client()
    eve.force_login(get_user_model().objects.get(username="eve"))
    get_user_model().objects.get(username="ada").delete()
    assert f"User {entry.actor}" in page(eve, action="links.create")


def test_the_log_is_searched_by_person_action_object_and_day(admin: Client) -> None:
    study = make_study("lab")
    record(ERASE, study, kind="ids", participants=2)
    record(BACKUP)
    pending_write()
    AuditEntry.everywhere.none()
    assert "Backed up the server" in page(admin)
    assert "<td>Backed up the server" not in page(admin, object="lab")
    assert "kind: ids, participants: 2" in page(admin, object="lab")
    assert "kind: ids, participants: 2" in page(admin, object=f"study {study.pk}")
    assert "No entry matches the search." in page(admin, action="export")
    assert "No entry matches the search." in page(admin, until="2001-01-01")
    assert "kind: ids" in page(admin, since="2001-01-01")
    for wrong in ({"object": "nothing"}, {"person": "9999"}, {"since": "yesterday"}, {"action": "x"}):
        assert admin.get(PAGE, wrong).status_code == 400


def test_pages_of_the_log_follow_one_another(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.dashboard.views.audit.PAGE", 3)
    AuditEntry.everywhere.count()
    written(7)
    n = AuditEntry.everywhere.count()
    seen, query = [], ""
    while True:
        response = admin.get(PAGE + query)
        seen += [row.sequence for row in response.context["rows"]]
        query = response.context["older"]
        if not query:
            break
    assert seen == list(range(n, 0, -1))
    assert "Newest entries" in response.content.decode()


def test_the_page_takes_few_queries_however_many_entries(
    admin: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(30):
        record(LINKS_CREATE, make_study(f"s{number}"), links=1)
    pending_write()
    page(admin)
    with django_assert_max_num_queries(20):
        page(admin)


def test_the_button_checks_the_chain(admin: Client) -> None:
    record(BACKUP)
    assert "Not checked yet." in page(admin)
    assert "The audit log is intact" in admin.post(f"{PAGE}check/", follow=True).content.decode()
    assert "The log is intact." in page(admin)


@pytest.mark.usefixtures("unguarded")
def test_the_page_says_that_the_log_was_changed(admin: Client) -> None:
    entries = written(3)
    AuditEntry.everywhere.filter(pk=entries[-1].pk).update(actor=7)
    html = admin.post(f"{PAGE}check/", follow=True).content.decode()
    assert "The log was changed." in html
    assert f"ntry {entries[-1].sequence} (row {entries[-1].pk}) was changed" in html


def test_the_file_has_what_the_hashes_cover(admin: Client) -> None:
    record(DOWNLOAD, make_study("lab"), file="links")
    pending_write()
    response = admin.get(f"{PAGE}audit.csv", {"object": "lab"})
    text = b"".join(response.streaming_content).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == list(audit_log.COLUMNS)
    entries = AuditEntry.everywhere.filter(object_kind="study").order_by("-sequence")
    assert [row["hash"] for row in rows] == [entry.hash for entry in entries]
    assert rows[0]["parameters"] == '{"file": "links"}'


def test_readers_cannot_open_it() -> None:
    reader = signed_in(Right.READ, Right.PAY, Right.PRIVATE, Right.RUN, Right.BOTS)
    assert reader.get(PAGE).status_code == 403
    assert reader.get(f"{PAGE}audit.csv").status_code == 403


def test_a_project_sees_its_own_log_only() -> None:
    owner: Any = make_staff(*Right, username="owner")
    project_create(actor=owner, key="lab", name="Lab")
    written(2)
    written(3, "lab")
    client = Client()
    client.force_login(owner)
    n_usual = AuditEntry.everywhere.filter(project="default").count()
    n_lab = AuditEntry.everywhere.filter(project="lab").count()
    assert len(client.get(PAGE).context["rows"]) == n_usual
    client.post(reverse("dashboard:project_choose"), {"project": "lab"})
    assert len(client.get(PAGE).context["rows"]) == n_lab
    owner = get_user_model().objects.get(pk=owner.pk)  # rights are read once for each user object
    with in_project("lab"):
        _row, text = token_make(user=owner, name="t", rights=["administer"])
    program = Client(headers={"authorization": f"Bearer {text}"})
    assert program.get("/api/v1/audit").json()["count"] == n_lab


def test_programs_read_the_log_page_by_page() -> None:
    user: Any = make_staff(*Right, username="ada")
    _row, text = token_make(user=user, name="t", rights=["administer"])
    program = Client(headers={"authorization": f"Bearer {text}"})
    pending_write()
    written(5)
    n = AuditEntry.everywhere.count()
    seen: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        answer = program.get("/api/v1/audit", {"limit": 2, **after}).json()
        seen += answer["items"]
        after = {"after": answer["after"]}
        if not answer["after"]:
            break
    assert [item["sequence"] for item in seen] == list(range(n, 0, -1))
    assert seen[0]["previous_hash"] == seen[1]["hash"]
    assert answer["count"] == n
    body = program.get("/api/v1/audit", {"action": "links.create", "since": "2001-01-01"}).json()
    assert body["count"] == 5
    assert program.get("/api/v1/audit", {"limit": 0}).status_code == 422
    _row, reading = token_make(user=user, name="r", rights=["read"])
    assert Client(headers={"authorization": f"Bearer {reading}"}).get("/api/v1/audit").status_code == 403
