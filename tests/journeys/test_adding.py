"""Whatever can be added is one file of a plug-in, and shows at its outside door: a command or a page."""

import json
from html import unescape

import httpx2
import pytest

from tests.conftest import ConfabServer, start_confab
from webapp.participant.simulated import StudyClient, frames_until, say

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def extended(tmp_path_factory, vector_cache):
    """Start a server with the plug-in `tests/plugin`."""
    folder = tmp_path_factory.mktemp("extended")
    yield from start_confab(folder, vector_cache, {"CONFAB_PLUGINS": "tests.plugin"}, with_demo=False)


async def test_a_new_bot_given_by_a_new_rule_chats_in_a_new_protocol_and_plays_itself(extended: ConfabServer) -> None:
    listed = {bot["id"]: bot for bot in json.loads(extended.manage("list_bots", "--json").stdout)}
    assert listed["shout"]["available"]
    extended.add_study("loud", ["shout", "eliza"], rule="first", protocol="small-talk")
    doors = StudyClient(extended.url, "loud")
    try:
        entry = await doors.http.get("/s/loud/")
        assert "Step 1 of 3: Welcome" in entry.text
        chat = await doors.http.get(f"/chat/{await doors.start()}/")
        assert "Step 2 of 3: Small talk" in chat.text
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            assert (await say(socket, "good morning"))[-1]["text"] == "GOOD MORNING"
        page = await doors.rate(lambda _name, choices: choices[-1])
        assert "code" in page
    finally:
        await doors.close()
    run = json.loads(
        extended.manage(
            "selfplay", "--bots", "shout", "--conversations", "2", "--turns", "4", "--inline", "--json"
        ).stdout
    )
    assert run["bots"]["shout"] == {"conversations": 2, "turns": 8}


def test_a_new_metric_is_computed_exported_and_in_the_dictionary(extended: ConfabServer) -> None:
    done = json.loads(
        extended.manage(
            "compute_metrics", "--study", "loud", "--metrics", "capitals,words", "--inline", "--json"
        ).stdout
    )
    assert done["metrics"] == ["capitals", "words"]
    file = extended.data_dir / "metrics.jsonl"
    extended.manage("export", "--study", "loud", "--what", "metrics", "--format", "jsonl", "--output", str(file))
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["capitals_bot"] == pytest.approx(11 / 12)
    extended.manage("export", "--study", "loud", "--what", "dictionary", "--format", "jsonl", "--output", str(file))
    assert "Share of capital letters." in file.read_text(encoding="utf-8")


def test_a_new_table_is_exported_and_a_new_format_imported(extended: ConfabServer) -> None:
    file = extended.data_dir / "talks.txt"
    file.write_text("shout\n> hi\n< HI\n\nshout\n> bye\n< BYE\n> now\n< NOW\n")
    imported = extended.manage("import_conversations", str(file), "--study", "talks", "--json")
    assert json.loads(imported.stdout)["conversations"] == 2
    out = extended.data_dir / "lengths.csv"
    extended.manage("export", "--study", "talks", "--what", "lengths", "--format", "csv", "--output", str(out))
    assert sorted(out.read_text().split()) == ["bot,n_exchanges", "shout,1", "shout,2"]


def test_a_new_kind_of_job_is_done_by_the_worker_and_has_a_page(extended: ConfabServer) -> None:
    extended.start_worker()
    code = """
import time
from django.contrib.auth import get_user_model
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create

get_user_model().objects.create_superuser("chief", password="a long enough one")
job = job_create(kind="counting", payload={"words": ["one", "three"]})
for _ in range(600):
    job.refresh_from_db()
    if job.is_over: break
    time.sleep(.1)
print(job.pk, job.state, job.n_done)
"""
    pk, *ended = extended.shell(code).split()
    assert ended == ["done", "8"]
    with httpx2.Client(base_url=extended.url, follow_redirects=True) as browser:
        page = f"/dashboard/jobs/counting/{pk}/"
        assert "Counting" not in browser.get(page).text  # the login is
        entered = {
            "username": "chief",
            "password": "a long enough one",
            "csrfmiddlewaretoken": browser.cookies["csrftoken"],
            "next": page,
        }
        response = browser.post("/admin/login/", data=entered, headers={"Referer": extended.url})
        assert response.url.path == page
        html = unescape(response.text)
        assert "Counting" in html
        assert '"one": 3' in html
        # What else the plug-in adds is offered to staff: its bot, its table and its format.
        assert "Shout" in browser.get("/dashboard/bots/").text
        assert "Arrows, > and <" in unescape(browser.get("/dashboard/imports/").text)
        assert "One row per conversation, with its exchanges." in unescape(
            browser.get("/dashboard/studies/talks/report/?part=export").text
        )
        refused = extended.shell(
            "from webapp.jobs.services.jobs import job_create\n"
            "try: job_create(kind='counting', payload={'wrds': ['one']})\n"
            "except Exception as error: print(error)"
        )
        assert "did you mean words" in refused
