"""The rule-based bot, small talk and other rules of English that bots share, and the two low-quality bots."""

import re
from collections import Counter
from itertools import pairwise

import pytest

from chatbots import Conversation
from chatbots.bots.controls import GENERIC_REPLIES, PARROT_OPENER, GenericBot, ParrotBot
from chatbots.bots.eliza import ElizaBot, script_read
from chatbots.english_rules import (
    BOT_ADMISSIONS,
    FAREWELL_REPLIES,
    asks_what_it_is,
    canned_replies,
    swap_pronouns,
    takes_leave,
)


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


@pytest.mark.parametrize(
    "text",
    [
        "bye",
        "Bye!",
        "Goodbye.",
        "ok bye bye",
        "Well, I have to go now.",
        "I have to go",
        "gotta go, my train is here",
        "Thanks for the tips, see you later!",
        "I’ve got to go to bed. Good night",
        "It was nice talking to you",
        "have a nice day!",
        "sorry i need to leave",
        "gtg",
        "take care",
        "Talk to you later",
        "Okay. I should get going.",
        "bye for now",
        "You too, bye",
        *FAREWELL_REPLIES,
    ],
)
def test_people_who_take_leave(text: str) -> None:
    assert takes_leave(text)
    assert canned_replies(text, [text]) == FAREWELL_REPLIES


@pytest.mark.parametrize(
    "text",
    [
        *("I have to go to the dentist tomorrow", "My dog has to go out twice a day"),
        *("He never said goodbye to me", "Do I have to go to school?", "Where should we go in June?"),
        *("I see you like dogs", "Have you seen Bye Bye Birdie?", "I had a nice day", "The night was good"),
        *("I must go there some day", ""),
    ],
)
def test_people_who_tell_of_something(text: str) -> None:
    assert not takes_leave(text)


@pytest.mark.parametrize(
    "text",
    [
        *("are you a bot?", "Are you human?", "are you real", "Are you a real person or a bot?"),
        *("so are you actually a robot", "Am I talking to a human?", "is this a chatbot"),
        *("Is there a real person here?", "You're a bot, right?", "you are not a human", "Are you an AI?"),
        *("Who are you?", "what are you", "Hm. Aren’t you a machine?"),
    ],
)
def test_people_who_ask_what_it_is(text: str) -> None:
    assert asks_what_it_is(text)
    assert canned_replies(text, [text]) == BOT_ADMISSIONS


@pytest.mark.parametrize(
    "text",
    [
        *("Are you a morning person?", "are you a computer scientist?", "Are you a real fan of football?"),
        *("You are a good person", "Is there a computer in your room?", "What are you doing?"),
        *("Who are you going with?", "I build robots", "Are you really sure?"),
    ],
)
def test_people_who_ask_something_else(text: str) -> None:
    assert not asks_what_it_is(text)


def test_goodbyes_come_to_an_end() -> None:
    said = ["bye", FAREWELL_REPLIES[0], FAREWELL_REPLIES[1]]
    assert canned_replies(FAREWELL_REPLIES[1], said) == ()


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
