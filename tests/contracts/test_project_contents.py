"""Two projects with a study of the same protocol: what one shows, exports and shares has nothing of the other.

Both studies are played by scripted participants, so that reports, plots and tables have contents. All texts, names and
ids of the hidden study carry a mark.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, connections
from django.test import Client
from django.urls import reverse

from tests.builders import make_staff
from tests.contracts.rehearsals import LINES, NO_DATA, PAGES, InsideDoors, checks_of, words_of
from tests.webapp.core.test_project_members import browser, member
from webapp.bots.models import Alert, BotAside, BotHealth, BotVersion
from webapp.conversations.models import Conversation, Turn
from webapp.core.clock import database_now
from webapp.core.database import in_database
from webapp.core.project_scope import in_project
from webapp.core.projects import project_create
from webapp.core.rights import Right
from webapp.dashboard.navigation import TABS, pages_open_to
from webapp.insights.report_files import report_ask
from webapp.jobs.engine import run_job
from webapp.participant import consumers
from webapp.participant.simulated import ScriptedParticipant, steps
from webapp.ratings.models import Rating
from webapp.studies.lifecycle import study_import
from webapp.studies.models import Item, PlatformIds, Study
from webapp.studies.protocols.base import get_protocol, protocols
from webapp.studies.selectors import rehearsal_token
from webapp.studies.study_file import study_example
from webapp.studies.versions import study_edit
from webapp.transfer.exporters.base import ExportOptions, exporters
from webapp.transfer.import_file import conversations_sample
from webapp.transfer.models import SharedReport
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.services import records_store
from webapp.transfer.writers import stream

MARK = "quetzal"
EVERYTHING = ExportOptions(include_synthetic=True, include_failed=True, include_private=True)
SYNTHETIC = {"synthetic": "1"}


def open_study(project: str, name: str) -> Study:
    """Open the protocol's example in a project, with the sample conversations that it gives."""
    with in_project(project):
        file = study_example(name).model_copy(update={"key": f"{project}-{name}", "name": f"Study of {project}"})
        study = study_import(file=file, opens=protocols.get(name).gives != "conversations").study
        if get_protocol(study).judges_conversations:
            records_store(study=study, records=conversations_sample())
        return study_edit(study=study, state=Study.State.COLLECTING, **checks_of(study))


def mark_everything(study: Study) -> None:
    """Put the mark into every text of the study, and let one of its bots be disabled."""
    Study.everywhere.filter(pk=study.pk).update(name=f"Study {MARK}")
    Turn.objects.filter(conversation__study=study).update(text=f"{MARK} said this")
    PlatformIds.objects.filter(study=study).update(external_id=f"{MARK}-pid", platform="prolific")
    Rating.objects.filter(task__participant__study=study).update(comment=f"{MARK} commented")
    for item in Item.objects.filter(study=study):
        item.key = f"{MARK}-{item.key}"[:60]
        item.context = [f"{MARK} {text}" for text in item.context]
        item.responses = [
            {**response, "model": f"{MARK}-{response.get('model', '')}", "text": f"{MARK} {response['text']}"}
            for response in item.responses
        ]
        item.save(update_fields=["key", "context", "responses"])
    for version in BotVersion.objects.filter(conversations__study=study).distinct():
        chats = Conversation.objects.filter(study=study, bot=version)
        version.pk, version.key = None, f"{MARK}-{version.pk}"
        version.bot_id, version.title = f"{MARK}-{version.bot_id}", f"{MARK} {version.title}"
        chats_of_version = list(chats.values_list("pk", flat=True))
        version.save(force_insert=True)
        Conversation.objects.filter(pk__in=chats_of_version).update(bot=version)
    BotHealth.objects.create(bot_id=f"{MARK}-bot", n_failed=5, reason=MARK, set_aside_at=database_now())
    aside = BotAside.objects.create(bot_id=f"{MARK}-bot", began_at=database_now(), reason=MARK, n_failed=5)
    Alert.objects.create(aside=aside, event=Alert.Event.SET_ASIDE, channel="email")


def pages_of(study: Study) -> list[str]:
    """Return the addresses of the study's pages that somebody with all rights can open."""
    user = get_user_model().objects.get(username="admin")
    routes = {page.route for tab in TABS for page in pages_open_to(user, tab, study)}
    return [reverse(f"dashboard:{route}", args=[study.key]) + "?synthetic=1" for route in sorted(routes)]


def pages_and_plots(study: Study, client: Client, *, plots: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the study's pages, the project's lists and, if wanted, all plots on them."""
    lists = [reverse(f"dashboard:{name}") for name in ("home", "jobs", "studies")]
    for address in [*lists, *pages_of(study)]:
        response = client.get(address, follow=True)
        assert response.status_code == 200, address
        yield address, body(response)
        links = re.findall(r'href="([^"]*figure_file=[^"]*)"', response.content.decode()) if plots else ()
        for href in set(map(html.unescape, links)):
            plot = client.get(href if href.startswith("/") else address.partition("?")[0] + href)
            assert plot.status_code == 200, href
            yield href, body(plot)


def tables_of(study: Study) -> Iterator[tuple[str, bytes]]:
    """Yield the tables that leave the project as files."""
    with in_project(None):  # as a command sees them
        for exporter in exporters:
            columns = exporter.columns(study, EVERYTHING)
            yield exporter.name, b"".join(stream("jsonl", columns, exporter.rows(study, EVERYTHING)))


def files_of(study: Study, client: Client) -> Iterator[tuple[str, bytes]]:
    """Yield whatever else leaves the project as a file: the package, the report and its shared link."""
    with in_project(None):
        yield "package", b"".join(package_pieces(study, EVERYTHING))
    job = report_ask(study=study, include_synthetic=True)
    run_job(job)
    job.refresh_from_db()
    assert job.state == "done", job.error
    report = reverse("dashboard:study_report", args=[study.key])
    yield "report", body(client.get(report, SYNTHETIC))
    shared = client.post(
        reverse("dashboard:report_share", args=[study.key]) + "?synthetic=1", {"name": "Reader", **SYNTHETIC}
    )
    address = re.search(r"/shared/[\w-]+/", shared.content.decode())
    assert address is not None, shared.content.decode()[-3000:]
    yield address[0], body(Client().get(address[0]))


def body(response: Any) -> bytes:
    return b"".join(response.streaming_content) if response.streaming else response.content


WITH_FILES = {protocols.get(name).gives: name for name in protocols.names()}.values()
"""Protocols whose plots, package and report are read, one for each kind of task; PostgreSQL is asked about no others.

Which rows are whose, the same managers say; package, plots and report hold what tables and pages hold.
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "name", [name for name in protocols.names() if name in WITH_FILES or connection.vendor == "sqlite"]
)
async def test_reports_plots_exports_and_links_have_nothing_of_another_project(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.02)
    monkeypatch.setattr(steps, "_ATTENTIVE", 1.0)

    def prepare() -> tuple[Study, Study]:
        admin: Any = make_staff(*Right, username="admin")
        for key in ("open", "hidden"):
            project_create(actor=admin, key=key, name=key)
        return open_study("open", name), open_study("hidden", name)

    studies = await in_database(prepare)()
    for seed, study in enumerate(studies):
        token = {"rehearsal": await in_database(rehearsal_token)(study)}
        visitor = InsideDoors("http://testserver", study.key, token)
        visitor.follows_links = False
        await ScriptedParticipant(visitor, lines=LINES, seed=seed).play()
        await visitor.close()

    def compare() -> None:
        ours, hidden = studies
        mark_everything(hidden)
        hidden.refresh_from_db()
        owner, stranger = browser(member("Owner", "hidden", "theirs")), browser(member("Owner", "open", "ours"))
        has_files, n_marked = name in WITH_FILES, 0
        with in_project("hidden"):  # test_project_walls.py has an owner look at pages, too
            for _source, content in (*tables_of(hidden), *(files_of(hidden, owner) if has_files else ())):
                n_marked += MARK.encode() in content.lower()
            for address in [*pages_of(hidden), reverse("dashboard:study_report", args=[hidden.key])]:
                assert stranger.get(address).status_code == 404, address
        assert n_marked >= (5 if has_files else 3), "without this, nothing below could fail"
        if has_files:
            share = SharedReport._base_manager.get(study=hidden)
            for key in (hidden.key, ours.key):
                assert stranger.post(reverse("dashboard:report_share_end", args=[key, share.pk])).status_code == 404
            assert SharedReport._base_manager.get(study=hidden).ended_at is None
        with in_project("open"):
            n_compared, pages = 0, pages_of(ours)
            files = (*tables_of(ours), *(files_of(ours, stranger) if has_files else ()))
            for source, content in (*pages_and_plots(ours, stranger, plots=has_files), *files):
                assert MARK.encode() not in content.lower(), source
                assert hidden.key.encode() not in content, source
                assert source not in pages or not NO_DATA.findall(words_of(content.decode())), source
                n_compared += 1
            assert n_compared > 20
        for route in ("alerts", "alerts_live", "system"):
            assert stranger.get(reverse(f"dashboard:{route}")).status_code in (403, 404), route

    await in_database(compare)()
    PAGES.submit(connections.close_all).result()
