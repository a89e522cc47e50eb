"""Journeys (f) to (h): a bot, a metric and an assignment rule are one file each, and everything finds them."""

from __future__ import annotations

import json

import pytest

from tests.conftest import ConfabServer, start_confab
from webapp.participant.rehearsal import OutsideDoors, frames_until, say

pytestmark = pytest.mark.slow

PLUGIN = '''
from chatbots import Identity
from chatbots.base import BotDefaults
from chatbots.registry import register_bot
from evaluation.columns import per_turn
from evaluation.metrics.base import Measured, MetricDefaults
from evaluation.metrics.registry import register_metric
from webapp.studies.rules.base import register_rule


@register_bot
class Shout(BotDefaults):
    """Answers in capitals."""

    name = "shout"
    title = "Shout"

    def answer(self, contexts):
        return [(c.turns[-1].text if c.turns else "hello").upper() for c in contexts]


@register_metric
class Capitals(MetricDefaults):
    """Share of capitals in the bot's turns."""

    name = "capitals"
    title = "Capitals"
    columns = per_turn(
        "capitals_bot", "Capitals, bot", unit="1", range=(0, 1), direction="neither",
        description="Share of capital letters.",
    )

    def measure(self, layout, shared):
        turns = layout.bot
        shares = [sum(c.isupper() for c in t) / max(1, len(t)) for t in layout.texts_at(turns)]
        return Measured(turns={"capitals_bot": layout.spread(turns, shares)})


@register_rule
class FirstComesFirst:
    """Always the first bot of the list."""

    name = "first"
    title = "First"
    description = "Everybody gets the first bot."
    identity = Identity("first", "1")

    def choose(self, loads, rng):
        return loads[0].id
'''


@pytest.fixture(scope="module")
def extended(tmp_path_factory, vector_cache):
    """A server with a bot and a rule from one outside module."""
    folder = tmp_path_factory.mktemp("extended")
    (folder / "lab_plugin.py").write_text(PLUGIN)
    server_env = {
        "CONFAB_PLUGINS": "lab_plugin",
        "PYTHONPATH": f"{folder}:{ConfabServer.root()}",
    }
    yield from start_confab(folder, vector_cache, server_env, with_demo=False)


async def test_a_new_bot_is_listed_chats_and_plays_itself(extended: ConfabServer) -> None:
    listed = {bot["id"]: bot for bot in json.loads(extended.manage("list_bots", "--json").stdout)}
    assert listed["shout"]["available"]
    extended.add_study("loud", ["shout", "eliza"], rule="first")
    doors = OutsideDoors(extended.url, "loud")
    try:
        await doors.start()
        async with doors.socket() as socket:
            await frames_until(socket, "history")
            assert (await say(socket, "good morning"))[-1]["text"] == "GOOD MORNING"
        page = await doors.rate(lambda _name, choices: choices[-1])
        assert "code" in page
    finally:
        await doors.close()
    run = json.loads(
        extended.manage(
            "selfplay",
            "--bots",
            "shout",
            "--conversations",
            "2",
            "--turns",
            "4",
            "--inline",
            "--json",
        ).stdout
    )
    assert run["bots"]["shout"] == {"conversations": 2, "turns": 8}


def test_a_new_metric_is_computed_exported_and_in_the_dictionary(extended: ConfabServer) -> None:
    done = json.loads(
        extended.manage(
            "compute_metrics",
            "--study",
            "loud",
            "--metrics",
            "capitals,words",
            "--inline",
            "--json",
        ).stdout
    )
    assert done["metrics"] == ["capitals", "words"]
    file = extended.data_dir / "metrics.jsonl"
    extended.manage(
        "export", "--study", "loud", "--what", "metrics", "--format", "jsonl", "--output", str(file)
    )
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["capitals_bot"] == pytest.approx(11 / 12)
    extended.manage(
        "export",
        "--study",
        "loud",
        "--what",
        "dictionary",
        "--format",
        "jsonl",
        "--output",
        str(file),
    )
    assert "Share of capital letters." in file.read_text(encoding="utf-8")
