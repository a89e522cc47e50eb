"""A registered fake bot, and a study with imported ratings that a hybrid metric can be fitted on."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chatbots.registry import bots
from tests.fakes import FakeStepBot
from webapp.jobs.kinds import base
from webapp.studies.models import Study
from webapp.transfer.import_file import import_conversations


@pytest.fixture(autouse=True)
def _nothing_loaded() -> Iterator[None]:
    base._loaded.clear()
    yield
    base._loaded.clear()


@pytest.fixture
def fake_bot() -> Iterator[Callable[..., FakeStepBot]]:
    """Make a fake and register it for the length of the test."""
    made: list[str] = []

    def make(name: str = "fake", **fields: Any) -> FakeStepBot:
        bot = FakeStepBot(name=name, **fields)
        bots.add(bot)
        made.append(name)
        return bot

    yield make
    for name in made:
        bots.discard(name)


WORDS = [
    *("good", "day", "rain", "music", "garden", "book", "train", "tea", "dog", "cold", "happy", "sad", "long"),
    *("river", "city", "walk"),
]


@pytest.fixture
def rated_study(tmp_path: Path) -> Callable[..., Study]:
    """Make an imported study of bots whose quality shows in how many questions they ask."""

    def make(
        key: str = "rated",
        *,
        n_bots: int = 4,
        n_each: int = 12,
        dimensions: tuple[str, ...] = ("quality",),
        seed: int = 5,
    ) -> Study:
        rng = random.Random(seed)
        path = tmp_path / f"{key}.jsonl"
        with path.open("w") as file:
            for bot in range(n_bots):
                for n in range(n_each):
                    turns = []
                    for _ in range(4):
                        text = " ".join(rng.choices(WORDS, k=rng.randint(3, 9)))
                        asks = "?" if rng.random() < bot / n_bots else "."
                        reply = " ".join(rng.choices(WORDS, k=rng.randint(2, 8))) + asks
                        turns += [{"speaker": "human", "text": text}, {"speaker": "bot", "text": reply}]
                    rating = {name: 1 + bot + rng.choice([0, 0, 1]) for name in dimensions}
                    record = {"dialogue_id": f"{bot}-{n}", "bot": f"bot{bot}", "turns": turns}
                    record["ratings"] = [{"rater": f"w{n}", **rating}]
                    file.write(json.dumps(record) + "\n")
        import_conversations(path, study_key=key, scale=(1, 7))
        return Study.objects.get(key=key)

    return make
