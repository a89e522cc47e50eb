"""`/metrics`, read by the Prometheus client's own parser; and who may read it."""

import re
import uuid
from datetime import timedelta

import pytest
import yaml
from django.conf import settings
from django.test import Client
from django.utils import timezone
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import exchange, fail_reply, make_conversation, make_study
from tests.documents import blocks_tested
from webapp.conversations.services import turn_add_human
from webapp.core.models import Process
from webapp.core.processes import SILENT_AFTER, Signs, processes_living
from webapp.jobs.models import Job, State

pytestmark = pytest.mark.django_db

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(**headers: str) -> Values:
    """Return every sample of the page by its name and labels."""
    answer = Client(headers=headers).get("/metrics")
    assert answer.status_code == 200, answer.content
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(result: Values, name: str, **labels: str) -> float:
    return result[name, frozenset(labels.items())]


@pytest.fixture
def two_signs(monkeypatch: pytest.MonkeyPatch) -> tuple[Signs, Signs]:
    """Give the signs of a web process and of a bot host."""
    monkeypatch.setattr(settings, "CONFAB_SIGN_EVERY_S", 10.0)
    web, host = Signs(), Signs()
    web.begin("web", in_thread=False)
    host.begin("bot_host", in_thread=False, pool="all")
    return web, host


def test_what_all_processes_counted_is_shown_one_by_one(two_signs: tuple[Signs, Signs]) -> None:
    web, host = two_signs
    Client().get("/s/nowhere/")
    web.give()
    host.give()
    first, second = (Process.objects.get(pk=signs.id) for signs in (web, host))
    second.samples["confab_replies"] = [["confab_replies_total", {"bot": "eliza"}, 41.0]]
    second.save()
    result = scraped()
    replies = {labels: n for (name, labels), n in result.items() if name == "confab_replies_total"}
    assert replies[frozenset({("bot", "eliza"), ("process", second.label)})] == 41
    seen = value(
        result, "confab_request_duration_seconds_count",
        process=first.label, part="participant", status="4xx",
    )  # fmt: skip
    assert seen >= 1
    assert value(result, "confab_process_memory_bytes", process=first.label) > 1e6
    info = {dict(labels)["roles"] for name, labels in result if name == "confab_process"}
    assert info == {"web", "bot_host"}
    # Who is silent is left out, and so is who has ended.
    Process.objects.filter(pk=host.id).update(heard_at=timezone.now() - SILENT_AFTER * 2)
    assert not any(second.label in str(labels) for _name, labels in scraped())
    web.end()
    assert processes_living() == []


def test_replies_and_failures_are_counted_per_bot(two_signs: tuple[Signs, Signs]) -> None:
    web, _host = two_signs
    web.give()
    before = scraped()
    study = make_study(bots=["eliza"])
    answered, failed, waits = (make_conversation(study) for _ in range(3))
    exchange(answered, "hello", "Hi.")
    turn_add_human(conversation_id=waits.pk, client_id=uuid.uuid4(), text="hello")
    fail_reply(failed)
    web.give()
    result = scraped()
    bot = answered.bot.bot_id
    (label,) = [one.label for one in processes_living()]

    def grown(name: str, **labels: str) -> float:
        key = (name, frozenset({"process": label, "bot": bot, **labels}.items()))
        return result[key] - before.get(key, 0.0)

    assert grown("confab_replies_total") == 1
    assert grown("confab_reply_duration_seconds_count") == 1
    assert grown("confab_reply_failures_total", why="error") == 1
    assert value(result, "confab_queue_waiting", queue="replies") == 1
    assert value(result, "confab_queue_oldest_seconds", queue="replies") >= 0
    assert str(waits.pk) not in str(result)


def test_jobs_and_room_are_shown() -> None:
    Job.objects.create(kind="results", state=State.QUEUED)
    running = Job.objects.create(kind="results", state=State.RUNNING, n_total=8, n_done=2)
    Job.objects.filter(state=State.QUEUED).update(created_at=timezone.now() - timedelta(minutes=5))
    result = scraped()
    assert value(result, "confab_jobs", kind="results", state="queued") == 1
    ratio = value(result, "confab_job_progress_ratio", kind="results", job=str(running.pk))
    assert ratio == 0.25
    waiting = {dict(k[1])["queue"]: v for k, v in result.items() if k[0] == "confab_queue_waiting"}
    assert sum(waiting.values()) == 1
    assert 0 < value(result, "confab_disk_free_bytes") <= value(result, "confab_disk_size_bytes")
    assert value(result, "confab_database_size_bytes") > 0


def test_the_newer_format_is_given_to_who_asks_for_it() -> None:
    answer = Client().get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    assert [family.name for family in open_metrics(answer.content.decode())]


def test_it_is_closed_to_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Client()
    assert here.get("/metrics").status_code == 200
    assert here.get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 403
    # A proxy on this machine that nobody declared brings the whole world.
    assert here.get("/metrics", headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 403
    monkeypatch.setattr(settings, "CONFAB_PROMETHEUS_TOKEN", "tell-me")
    for given, status in (("tell-me", 200), ("tell-m", 403), ("", 403)):
        answer = here.get("/metrics", REMOTE_ADDR="203.0.113.9", headers={"Authorization": f"Bearer {given}"})
        assert answer.status_code == status, given
    assert "CONFAB_PROMETHEUS_TOKEN" in answer.content.decode()
    monkeypatch.setattr(settings, "CONFAB_PROMETHEUS_ALLOW", ["203.0.113.0/24"])
    assert here.get("/metrics", REMOTE_ADDR="203.0.113.9").status_code == 200
    assert here.get("/metrics").status_code == 403


def test_the_rules_of_the_documentation_ask_for_what_is_there() -> None:
    shown = blocks_tested(
        "tests/webapp/operating/test_metrics.py::test_the_rules_of_the_documentation_ask_for_what_is_there"
    )
    scrape, rules = (yaml.safe_load(block.text) for block in shown)
    assert scrape["scrape_configs"][0]["job_name"] == "confab"
    text = Client().get("/metrics").content.decode()
    known = {family.name for family in text_string_to_metric_families(text)}
    exprs = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(exprs) >= 5
    for expression in exprs:
        for name in re.findall(r"confab_[a-z_]+", expression):
            assert re.sub("_(total|bucket)$", "", name) in known, name
