"""The rule-based bot: what it understands, that it listens, and that it does not repeat itself."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from chatbots import Conversation
from chatbots.bots.eliza import ElizaBot, script_read
from chatbots.english_rules import swap_pronouns


def reply_to(*texts: str, seed: int = 0) -> str:
    """Return the reply to an alternating conversation that ends with the participant."""
    return ElizaBot().answer([Conversation.from_texts(texts, seed=seed)])[0]


def templates(key: str, which: str = "say") -> list[re.Pattern[str]]:
    rule = next(rule for rule in script_read().rules if rule.key == key)
    return [template.shape for template in getattr(rule, which)]


def comes_from(reply: str, key: str) -> bool:
    return any(shape.fullmatch(reply) for shape in templates(key))


def special(reply: str, key: str) -> bool:
    return any(template.shape.fullmatch(reply) for template in script_read().special[key])


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("my dog hates me", "your dog hates you"),
        ("you are lying to me", "I'm lying to you"),
        ("that I was tired", "that you were tired"),
        ("you never listen to us", "I never listen to you"),
        ("yours and mine", "mine and yours"),
        ("that you do not like my sister's cooking", "that I don't like your sister's cooking"),
        ("to see you", "to see me"),
        ("Anna and myself too", "Anna and yourself"),
    ],
)
def test_reflection_turns_the_speaker_round(text: str, seen: str) -> None:
    assert swap_pronouns(text) == seen


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Hello!", "greeting"),
        ("HELLO THERE", "greeting"),
        ("how are you?", "how_are_you"),
        ("Hi! How are you doing today?", "how_are_you"),
        ("I'm fine thanks, and you?", "fine_thanks"),
        ("I’m so sad today", "sad"),
        ("im really sad", "sad"),
        ("I don't feel well", "sad"),
        ("I am worried about my exam", "afraid"),
        ("My mother calls me every day.", "parent"),
        ("i have two kids", "child"),
        ("my dog died yesterday", "loss"),
        ("are you a robot?", "are_you_bot"),
        ("What's your name?", "your_name"),
        ("do you like jazz", "do_you_like"),
        ("Do you have any brothers?", "do_you_have"),
        ("what is your favourite book?", "your_favourite"),
        ("Computers frighten people", "computer"),
        ("My name is Anna", "my_name"),
        ("I can't swim", "i_cannot"),
        ("I got a promotion!", "celebrate"),
        ("ok bye", "goodbye"),
        ("thanks a lot", "thanks"),
        ("you're not very helpful", "abuse"),
        ("I want to kill myself", "crisis"),
        ("do you cook?", "do_you_do"),
        ("thank you! do you have any tips?", "advice"),
        ("what else do you like?", "what_do_you_do"),
        ("Yesterday it rained the whole time", "weather"),
        ("why?", "why_question"),
        ("What is the capital of France?", "wh_question"),
        ("What shall we talk about?", "propose"),
    ],
)
def test_the_right_rule_answers(text: str, rule: str) -> None:
    for seed in range(5):
        reply = reply_to(text, seed=seed)
        assert comes_from(reply, rule), f"{text!r} got {reply!r}"


def test_yes_and_no_are_understood_as_answers_to_a_question() -> None:
    opening = ("hi", "Do you often think of that?")
    assert comes_from(reply_to(*opening, "Yes"), "yes_after_question")
    assert comes_from(reply_to(*opening, "nope"), "no_after_question")
    assert not comes_from(reply_to("hi", "I see.", "Yes"), "yes_after_question")
    assert not comes_from(reply_to(*opening, "I do not drink coffee"), "yes_after_question")


def test_names_and_nouns_are_taken_up() -> None:
    replies = {reply_to("My name is Zainab", seed=seed) for seed in range(20)}
    assert any("Zainab" in reply for reply in replies)
    replies = {reply_to("My accordion is broken", seed=seed) for seed in range(20)}
    assert any("your accordion" in reply.lower() for reply in replies)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("...", "empty"),
        ("😂😂", "emoji_happy"),
        ("😭", "emoji_sad"),
        ("❤️", "emoji_love"),
        ("🦖", "emoji"),
        (":-)", "emoji_happy"),
        ("привет, как дела?", "foreign"),
        ("مرحبا كيف حالك", "foreign"),
        ("你好", "foreign"),
        ("hola, como estas?", "foreign"),
        ("Ich bin sehr müde", "foreign"),
        ("xkcdqrtz", "unreadable"),
    ],
)
def test_input_without_english_words_gets_a_fitting_reply(text: str, kind: str) -> None:
    assert special(reply_to(text), kind)


@pytest.mark.parametrize("text", ["I die inside", "no me neither", "the man was gut punched", "42"])
def test_english_is_not_taken_for_another_language(text: str) -> None:
    assert not special(reply_to(text), "foreign")


def test_a_long_story_is_asked_about() -> None:
    story = "Then the bus stopped and the driver got out to look at the wheel again. " * 8
    assert special(reply_to(story), "long")


def test_a_repetition_is_noticed() -> None:
    assert special(reply_to("The bus was late", "Go on, I'm listening.", "the bus was late!"), "repeated")


def test_something_said_before_is_taken_up_later() -> None:
    texts = ["My sister lives in Peru", "Do you see each other often?", "No", "I see. What then?", "ok"]
    memories = templates("family", "later")
    replies = [reply_to(*texts, seed=seed) for seed in range(20)]
    recalled = [r for r in replies if any(m.fullmatch(r) for m in memories)]
    assert recalled
    assert all("sister" in reply for reply in recalled)


@pytest.mark.parametrize("line", ["ok", "I am sad", "why?", "no", "😂", "", "My mother called", "hola"])
def test_thirty_times_the_same_input_never_gives_the_same_reply_twice_running(line: str) -> None:
    conversation = Conversation("c", (), seed=3)
    bot, replies = ElizaBot(), []
    for _ in range(30):
        conversation = conversation.with_turn("human", line)
        replies.append(bot.answer([conversation])[0])
        conversation = conversation.with_turn("bot", replies[-1])
    assert all(a != b for a, b in pairwise(replies))
    assert len(set(replies[:10])) == 10


def test_twenty_turns_of_self_play_never_repeat_an_utterance() -> None:
    texts: list[str] = []
    bot = ElizaBot()
    for i in range(20):
        context = Conversation("c", (), seed=5)
        for j, text in enumerate(texts):
            context = context.with_turn("human" if (i - j) % 2 else "bot", text)
        texts.append(bot.answer([context])[0])
    assert len(set(texts)) == 20


def test_every_template_reads_well_whatever_was_quoted() -> None:
    """No slot is left open and no reply begins with a small letter."""
    for rule in script_read().rules:
        for template in (*rule.say, *rule.later):
            filled = template.filled(["my old piano", "you"])
            assert filled is None or ("{" not in filled and filled[0].isupper())
