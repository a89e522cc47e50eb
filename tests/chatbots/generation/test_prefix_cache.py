"""What transformers bots keep between turns, and prompts that are read in parts: the same replies, read for less."""

import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from chatbots.bots.transformers_bot import TransformersBot
from chatbots.conversation import Conversation
from chatbots.generation import prefill
from chatbots.generation.language_model import LanguageModel
from chatbots.generation.prefix_cache import PREFIX_CACHE, CachedRow, PrefixCache
from chatbots.serving import BotHost, reply
from tests.tiny_models import CHATML, DECODERS, save_model

OPEN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""Sampling from everything: any difference in the logits shows soon."""


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    made: dict[str, Path] = {}

    def folder(architecture: str) -> Path:
        if architecture not in made:
            made[architecture] = save_model(
                tmp_path_factory.mktemp(architecture),
                architecture,
                n_positions=400,
                chat_template=CHATML if architecture == "llama" else None,
            )
        return made[architecture]

    return folder


@pytest.fixture(autouse=True)
def kept_anew():
    before = PREFIX_CACHE.limit_bytes
    yield
    PREFIX_CACHE.limit_bytes = 0
    PREFIX_CACHE.limit_bytes = before


@pytest.fixture
def n_read(monkeypatch) -> list[int]:
    """Count the tokens of each pass that reads prompts."""
    counts: list[int] = []
    read = LanguageModel.read

    def counted(self, reading, n_columns=None):
        n_before = reading.n_read
        result = read(self, reading, n_columns)
        counts.append(len(reading.rows) * (reading.n_read - n_before))
        return result

    monkeypatch.setattr(LanguageModel, "read", counted)
    return counts


def loaded(folder: Path, **params) -> TransformersBot:
    settings = {"name": "tiny", "model": str(folder), "max_new_tokens": 12, "window": 0, **params}
    bot = TransformersBot(**settings)
    bot.load("cpu")
    return bot


def talks(bot: TransformersBot, *, n_talks: int = 3, n_turns: int = 4) -> list[list[str]]:
    """Have several conversations at once, in lockstep; the bot's replies of each."""
    texts = ["hello how are you today", "what do you like to eat", "we went to the sea", "ok"]
    open_ = [Conversation(id=f"talk {i}", seed=i) for i in range(n_talks)]
    replies: list[list[str]] = [[] for _ in open_]
    for turn in range(n_turns):
        open_ = [c.with_turn("human", texts[(i + turn) % 4]) for i, c in enumerate(open_)]
        for i, made in enumerate(reply(bot, open_)):
            replies[i].append(made.text or "")
            open_[i] = open_[i].with_turn("bot", made.text or "hm")
    return replies


def kept(tokens: list[int], size: int = 10) -> CachedRow:
    layer = torch.zeros(1, len(tokens), size)
    return CachedRow(np.asarray(tokens, dtype=np.int32), ((layer, layer),))


# The store.


def test_the_longest_common_beginning_is_found_and_the_last_token_is_left_to_read():
    store = PrefixCache(10**6)
    one, other = store.owner(), store.owner()
    store.put(one, "a", kept([1, 2, 3, 4]))
    store.put(one, "b", kept([1, 2, 9]))
    assert store.longest(one, [1, 2, 3, 8, 8]).n_tokens == 3
    assert store.longest(one, [1, 2, 9, 4]).n_tokens == 3
    assert store.longest(one, [1, 2, 3, 4]).n_tokens == 3, "a logit is needed for the last one"
    assert store.longest(one, [1]) is None
    assert store.longest(one, [7, 1, 2, 3]) is None
    assert store.longest(other, [1, 2, 3]) is None
    store.put(one, "a", kept([5, 6]))
    assert store.longest(one, [1, 2, 3, 8]).n_tokens == 2, "its place was taken"


def test_what_was_used_longest_ago_goes_first_and_the_limit_holds():
    size = kept([1, 2]).n_bytes
    assert size == 2 * 2 * 10 * 4 + 2 * 4
    store = PrefixCache(2 * size)
    owner, second = store.owner(), store.owner()
    store.put(owner, "a", kept([1, 2]))
    store.put(second, "b", kept([3, 4]))
    store.longest(owner, [1, 2, 3])
    store.put(owner, "c", kept([5, 6]))
    assert store.longest(second, [3, 4, 5]) is None
    assert store.n_bytes() == store.n_bytes(owner) == 2 * size
    store.put(owner, "d", kept(list(range(9))))
    assert store.n_bytes() == 2 * size, "one that is larger than all room puts nothing out"
    store.limit_bytes = size
    assert store.longest(owner, [1, 2, 3]) is None
    assert store.n_bytes() == size
    store.drop(owner)
    assert store.n_bytes() == 0
    with pytest.raises(ValueError, match="limit_bytes is -1"):
        store.limit_bytes = -1


# Replies.


@pytest.mark.parametrize("architecture", DECODERS)
@pytest.mark.parametrize("decoding", [{"temperature": 0}, OPEN], ids=["greedy", "sampled"])
def test_replies_are_the_same_with_and_without_what_was_kept(folder_of, n_read, architecture, decoding):
    bot = loaded(folder_of(architecture), **decoding)
    assert bot._loaded.language_model.resumable
    PREFIX_CACHE.limit_bytes = 0
    expected = talks(bot)
    n_without = sum(n_read)
    n_read.clear()
    PREFIX_CACHE.limit_bytes = 10**8
    assert talks(bot) == expected
    assert sum(n_read) < 0.7 * n_without
    assert any(any(texts) for texts in expected)


def test_only_what_is_new_is_read(folder_of, n_read):
    bot = loaded(folder_of("llama"), **OPEN)
    n_read.clear()
    context = Conversation(id="1", seed=5)
    prompts, passes = [], []
    for turn in range(8):
        context = context.with_turn("human", f"tell me more about your day {turn}")
        prompts.append(len(bot._loaded.prompts.encode(context)))
        [made] = reply(bot, [context])
        passes.append(sum(n_read))
        n_read.clear()
        context = context.with_turn("bot", made.text)
    assert passes[0] == prompts[0]
    assert prompts[-1] > 5 * prompts[0]
    # What the person says, and the reply before it where its words are other tokens than those that were drawn.
    assert max(passes[1:]) < prompts[0] + bot.options.max_new_tokens + 12


@pytest.mark.parametrize("window", [0, 3])
def test_a_history_that_is_cut_or_differs_is_read_from_where_it_differs(folder_of, window):
    bot = loaded(folder_of("gpt2"), window=window, **OPEN)
    texts = ["hello", "how are you", "what do you like to eat", "cats", "tell me more", "no", "ok"]
    whole = Conversation.from_texts(texts, id="1", seed=3)
    others = [
        replace(whole, turns=whole.turns[:3]),
        whole,
        whole.last(3),
        Conversation.from_texts([*texts[:2], "maybe", *texts[3:]], id="1", seed=3),
        Conversation.from_texts(["yes", *texts[1:]], id="1", seed=3),
        replace(whole, turns=whole.turns[:1]),
        whole,
    ]
    PREFIX_CACHE.limit_bytes = 0
    expected = [reply(bot, [context])[0].text for context in others]
    PREFIX_CACHE.limit_bytes = 10**8
    assert [reply(bot, [context])[0].text for context in others] == expected
    assert [r.text for r in reply(bot, others)] == expected, "and all together"


def test_a_system_prompt_is_read_once_for_all_conversations(folder_of, n_read):
    prompt = "you are a kind listener and you like cats and dogs and music " * 3
    bot = loaded(folder_of("llama"), system_prompt=prompt)
    first, second = (Conversation.from_texts([t], id=t) for t in ("hello", "tell me more"))
    reply(bot, [first])
    n_read.clear()
    reply(bot, [second])
    assert sum(n_read) < len(bot._loaded.prompts.encode(second)) / 2


def test_memory_is_shown_and_goes_with_the_model(folder_of):
    bot, other = (loaded(folder_of("gpt2"), name=name) for name in ("one", "two"))
    host = BotHost(get_bot={"one": bot, "two": other}.__getitem__)
    before = host.totals()["kept_bytes"]
    talks(bot, n_talks=2, n_turns=1)
    n_tokens = [row.tokens.size for (owner, _), row in PREFIX_CACHE._rows.items()]
    assert bot.kept_bytes == sum(n * (2 * 2 * 32 * 4 + 4) for n in n_tokens)
    assert other.kept_bytes == 0
    assert host.totals()["kept_bytes"] - before == bot.kept_bytes
    assert host.totals()["kept_limit_bytes"] == PREFIX_CACHE.limit_bytes
    bot.unload()
    gc.collect()
    assert host.totals()["kept_bytes"] == before
    assert bot.kept_bytes == 0


def test_a_model_that_cannot_read_in_parts_reads_whole(folder_of, n_read):
    bot = loaded(folder_of("gpt2"), **OPEN)
    PREFIX_CACHE.limit_bytes = 0
    expected = talks(bot)
    PREFIX_CACHE.limit_bytes = 10**8
    lm = bot._loaded.language_model
    begin = lm.begin

    def misplaced(prompts, known=()):
        reading = begin(prompts, known)
        if reading.n_left < max(map(len, prompts)):
            reading.positions += 1
        return reading

    lm.begin = misplaced
    with torch.inference_mode():
        assert lm.check()
    assert not lm.resumable
    assert talks(bot) == expected
    assert bot.kept_bytes == 0


# Prompts are read in parts while replies are running.


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_long_prompt_does_not_hold_up_a_running_reply(folder_of, monkeypatch, n_read, architecture):
    monkeypatch.setattr(prefill, "CPU_PREFILL_TOKENS", 8)
    bot = loaded(folder_of(architecture), max_new_tokens=40, min_new_tokens=40, **OPEN)
    running = Conversation.from_texts(["hello"], id="1", seed=1)
    long = Conversation.from_texts(["tell me more about your day " * 10], id="2", seed=2)
    short = Conversation.from_texts(["ok"], id="3", seed=3)
    PREFIX_CACHE.limit_bytes = 0
    expected = [reply(bot, [context])[0].text for context in (running, long, short)]
    n_read.clear()
    generation = bot.start()
    generation.admit([running])
    texts: dict[int, str] = {}
    order: list[int] = []
    for step in range(200):
        if step == 2:
            n_read.clear()
            generation.admit([long, short])
        for piece in generation.step():
            texts[piece.slot] = texts.get(piece.slot, "") + piece.text
            order += [piece.slot] if piece.slot not in order else []
    assert [texts[slot] for slot in range(3)] == expected
    assert len(n_read) > 5
    assert max(n_read) <= 8
    assert order == [0, 2, 1], "a short prompt is not kept waiting by a long one"


def test_nobody_waits_for_a_prompt_whose_asker_has_gone(folder_of, monkeypatch, n_read):
    monkeypatch.setattr(prefill, "CPU_PREFILL_TOKENS", 8)
    bot = loaded(folder_of("gpt2"), max_new_tokens=30, min_new_tokens=30, **OPEN)
    generation = bot.start()
    generation.admit([Conversation.from_texts(["hello"], id="1", seed=1)])
    generation.step()
    [late] = generation.admit([Conversation.from_texts(["tell me more " * 20], id="2", seed=2)])
    generation.step()
    n_read.clear()
    generation.cancel(late)
    generation.step()
    assert n_read == []
    while generation._slots:
        generation.step()
    assert generation.step() == []


# The next prompt is read while nobody waits.


def idle(bot: TransformersBot) -> int:
    """Let a bot do all it can do while nobody waits; how many parts it took."""
    n = 0
    while bot.has_idle_work:
        bot.work_idle()
        n += 1
        assert n < 50
    return n


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_window_that_moves_is_read_before_the_person_writes(folder_of, n_read, architecture):
    bot = loaded(folder_of(architecture), window=4, **OPEN)
    texts = [f"{n} {text}" for n in range(4) for text in ("tell me about your day", "it was cold")]
    talk = Conversation.from_texts(texts[:7], id="1", seed=2)
    PREFIX_CACHE.limit_bytes = 0
    [made] = reply(bot, [talk])
    assert not bot.has_idle_work, "nothing is kept, so nothing is read ahead"
    PREFIX_CACHE.limit_bytes = 10**8
    assert reply(bot, [talk]) == [made]
    assert idle(bot) > 1
    n_read.clear()
    talk = talk.with_turn("bot", made.text)
    talk = talk.with_turn("human", "yes")
    [with_it] = reply(bot, [talk])
    assert sum(n_read) < len(prompt := bot._loaded.prompts.encode(talk)) / 2, len(prompt)
    PREFIX_CACHE.limit_bytes = 0
    assert reply(bot, [talk]) == [with_it]


async def test_the_host_reads_ahead_between_turns_and_stops_when_somebody_writes(folder_of):
    bot = loaded(folder_of("llama"), window=4, **OPEN)
    host = BotHost(get_bot=lambda _: bot)
    talk = Conversation.from_texts(["tell me more about your day"] * 7, id="1", seed=2)

    async def ask(context: Conversation) -> str:
        return "".join([piece async for piece in host.stream("tiny", context)])

    said = await ask(talk)
    async with asyncio.timeout(20):
        while bot.has_idle_work:
            await asyncio.sleep(0.01)
    talk = talk.with_turn("bot", said).with_turn("human", "yes")
    assert await ask(talk)
    await host.close()
    assert not bot.has_idle_work


def test_there_is_no_reading_ahead_without_room(folder_of):
    bot = loaded(folder_of("llama"), window=4, **OPEN)
    PREFIX_CACHE.limit_bytes = 20_000
    reply(bot, [Conversation.from_texts(["tell me more about your day"] * 7, id="1", seed=2)])
    idle(bot)
    assert PREFIX_CACHE.n_bytes() <= 20_000
