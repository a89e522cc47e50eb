"""The two labelled low-quality bots."""

from __future__ import annotations

from collections import Counter

from chatbots import Conversation
from chatbots.bots.controls import GENERIC_REPLIES, PARROT_OPENER, GenericBot, ParrotBot


def test_the_parrot_repeats_the_participants_last_message_word_for_word() -> None:
    contexts = [
        Conversation.from_texts(["Hello  there!"]),
        Conversation.from_texts(["one", "reply", "two 😀"]),
        Conversation.from_texts(["one", "reply"]),
        Conversation("empty"),
        Conversation.from_texts(["   "]),
    ]
    assert ParrotBot().answer(contexts) == ["Hello  there!", "two 😀", "one", PARROT_OPENER, PARROT_OPENER]


def test_the_generic_bot_looks_at_the_seed_only() -> None:
    bot = GenericBot()
    sad = [Conversation.from_texts(["I am sad"], seed=seed) for seed in range(400)]
    glad = [Conversation.from_texts(["I am glad"], seed=seed) for seed in range(400)]
    replies = bot.answer(sad)
    assert replies == bot.answer(glad)
    counts = Counter(replies)
    assert set(counts) == set(GENERIC_REPLIES)
    assert min(counts.values()) > 20, "each phrase has its turn (50 expected)"
