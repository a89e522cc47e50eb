"""What every registered bot promises. A new file in `chatbots/bots/` is tested here without more work."""

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chatbots import Conversation, Identity
from chatbots.bots.base import Bot
from chatbots.encoders.cache import cache_folder_set
from chatbots.registry import UnknownName, bot_get, bot_list, bot_load, bots
from chatbots.serving import Reply, reply

NAMES = bots.names()

ODD = {
    "empty conversation": [],
    "empty text": [""],
    "blanks": [" \n\t "],
    "one letter": ["k"],
    "one word": ["hello"],
    "emoji": ["😂😂👍🏽"],
    "right to left": ["مرحبا، كيف حالك اليوم؟"],
    "no spaces": ["日本語で話せますか"],
    "signs": ["?!?! ... ((( {0} {name} %s \\ \x00 <b>&amp;"],
    "3,000 characters": ["Then we walked on, and it rained, and nobody minded. " * 57],
    "one long word": ["a" * 3000],
    "twelve turns": ["Hi", "Hello.", "I have a dog", "Nice.", "He is old", "I see.", "Yes", "Go "
    "on.", "ok", "So?", "no", "Oh.", "bye"],
    "same again": ["why?", "Because.", "why?", "Because.", "why?"],
}  # fmt: skip


def contexts(seed: int = 3) -> list[Conversation]:
    return [Conversation.from_texts(texts, id=name, seed=seed) for name, texts in ODD.items()]


@pytest.fixture(scope="module", autouse=True)
def _own_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    cache_folder_set(Path(request.config.cache.mkdir("confab")))  # type: ignore[union-attr]
    yield
    cache_folder_set(None)


@pytest.fixture(scope="module", params=NAMES)
def bot(request: pytest.FixtureRequest) -> Bot:
    result = bot_get(request.param)
    reason = result.unavailable_reason()
    if reason is not None:
        pytest.skip(f"{request.param} is not available here: {reason}")
    return bot_load(request.param)


@pytest.fixture(scope="module")
def answers(bot: Bot) -> list[Reply]:
    """Return what the bot replies to every context, all in one batch."""
    return reply(bot, contexts())


def test_the_bots_of_this_project_are_found() -> None:
    assert {"eliza", "retrieval", "parrot", "generic"} <= set(NAMES)
    assert {bot.name for bot in bot_list() if bot.is_control} >= {"parrot", "generic"}


@pytest.mark.parametrize("name", NAMES)
def test_who_it_is_is_known_without_loading(name: str) -> None:
    bot = type(bot_get(name))()  # a fresh one: nothing is loaded
    identity = bot.identity
    assert isinstance(identity, Identity)
    assert identity.name == bot.name == name
    assert identity.version
    assert identity.key == bot.identity.key == type(bot)().identity.key
    assert json.loads(json.dumps(identity.as_dict())) == identity.as_dict()
    assert bot.title
    assert bot.kind
    assert bot.capacity >= 1
    assert isinstance(bot.is_control, bool)
    assert isinstance(bot.deterministic, bool)
    assert bot.unavailable_reason() is None or bot.unavailable_reason()
    assert sum(hasattr(bot, kind) for kind in ("start", "stream", "answer")) == 1
    assert inspect.getdoc(type(bot))


def test_every_conversation_gets_a_reply_with_something_in_it(answers: list[Reply]) -> None:
    for context, answer in zip(contexts(), answers, strict=True):
        assert answer.error is None, f"{context.id}: {answer.error}"
        # The parrot repeats: blanks from a participant cannot come from a person (the chat refuses them).
        assert answer.text.strip(), context.id


def test_the_same_context_and_seed_give_the_same_reply(bot: Bot, answers: list[Reply]) -> None:
    if not bot.deterministic:
        pytest.skip("says itself that it is not deterministic")
    assert reply(bot, contexts()) == answers


def test_a_reply_does_not_depend_on_who_shares_the_batch(bot: Bot, answers: list[Reply]) -> None:
    if not bot.deterministic:
        pytest.skip("says itself that it is not deterministic")
    alone = [reply(bot, [context])[0] for context in contexts()]
    backwards = reply(bot, contexts()[::-1])[::-1]
    assert answers == alone == backwards


def test_it_can_be_loaded_again_and_unloaded(bot: Bot) -> None:
    context = Conversation.from_texts(["Hello, how are you?"], seed=1)
    key = bot.identity.key
    before = reply(bot, [context])
    bot.load("cpu")
    bot.unload()
    bot.unload()
    bot.load("cpu")
    assert bot.identity.key == key
    after = reply(bot, [context])
    if bot.deterministic:
        assert before == after
    assert after[0].error is None


def test_no_conversation_gives_no_reply(bot: Bot) -> None:
    assert reply(bot, []) == []


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean eliza"):
        bot_get("elisa")


def test_listing_bots_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from chatbots.registry import bot_list\n"
        "for bot in bot_list():\n"
        "    bot.identity.key, bot.unavailable_reason(), bot.title, bot.params\n"
        "heavy = ('torch', 'transformers', 'sentence_transformers', 'sklearn', 'httpx2', 'statsmodels')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
