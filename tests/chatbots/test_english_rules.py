"""Small talk and other rules of English that bots share."""

from __future__ import annotations

import pytest

from chatbots.english_rules import BOT_ADMISSIONS, FAREWELL_REPLIES, asks_what_it_is, canned_replies, takes_leave


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
        "I have to go to the dentist tomorrow",
        "My dog has to go out twice a day",
        "He never said goodbye to me",
        "Do I have to go to school?",
        "Where should we go in June?",
        "I see you like dogs",
        "Have you seen Bye Bye Birdie?",
        "I had a nice day",
        "The night was good",
        "I must go there some day",
        "",
    ],
)
def test_people_who_tell_of_something(text: str) -> None:
    assert not takes_leave(text)


@pytest.mark.parametrize(
    "text",
    [
        "are you a bot?",
        "Are you human?",
        "are you real",
        "Are you a real person or a bot?",
        "so are you actually a robot",
        "Am I talking to a human?",
        "is this a chatbot",
        "Is there a real person here?",
        "You're a bot, right?",
        "you are not a human",
        "Are you an AI?",
        "Who are you?",
        "what are you",
        "Hm. Aren’t you a machine?",
    ],
)
def test_people_who_ask_what_it_is(text: str) -> None:
    assert asks_what_it_is(text)
    assert canned_replies(text, [text]) == BOT_ADMISSIONS


@pytest.mark.parametrize(
    "text",
    [
        "Are you a morning person?",
        "are you a computer scientist?",
        "Are you a real fan of football?",
        "You are a good person",
        "Is there a computer in your room?",
        "What are you doing?",
        "Who are you going with?",
        "I build robots",
        "Are you really sure?",
    ],
)
def test_people_who_ask_something_else(text: str) -> None:
    assert not asks_what_it_is(text)


def test_goodbyes_come_to_an_end() -> None:
    said = ["bye", FAREWELL_REPLIES[0], FAREWELL_REPLIES[1]]
    assert canned_replies(FAREWELL_REPLIES[1], said) == ()
