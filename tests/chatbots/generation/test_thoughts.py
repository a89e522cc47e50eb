"""Thoughts of reasoning models are taken out, however they are cut into pieces."""

from __future__ import annotations

import pytest

from chatbots.base import BotError
from chatbots.generation.thoughts import ThoughtFilter, without_thoughts


def said(text: str, size: int, *, is_inside: bool = False) -> str:
    """Return what is passed on of a text that comes in pieces of so many characters."""
    thoughts = ThoughtFilter(is_inside=is_inside)
    pieces = [thoughts.take(text[i : i + size]) for i in range(0, len(text), size)]
    return "".join(pieces) + thoughts.end()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>They greet me.</think>\n\nHello!", "Hello!"),
        ("\n<THINK>a < b</Think> Hello!", "Hello!"),
        ("Hello <think>what else?</think>there", "Hello there"),
        ("<think>one</think><think>two</think>Hello", "Hello"),
        ("<think>It never ends. </thin", ""),
        ("Well, <think>it never ends", "Well, "),
        ("</think>\nHello", "Hello"),
        ("I think <b>a</b> < c <th", "I think <b>a</b> < c <th"),
        ("<thinking hard>", "<thinking hard>"),
        ("  plain", "  plain"),
    ],
)
def test_only_what_is_said_is_passed_on(text: str, left: str, size: int) -> None:
    assert said(text, size).lstrip() == left.lstrip()
    assert "think>" not in said(text, size).lower()


def test_text_without_thoughts_is_not_held_back() -> None:
    thoughts = ThoughtFilter()
    assert [thoughts.take(piece) for piece in ("Hel", "lo <", "3 you")] == ["Hel", "lo ", "<3 you"]


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_reply_that_begins_within_a_thought_is_held_back_until_its_end(size: int) -> None:
    assert said("They greet me.</think>\nHello!", size, is_inside=True) == "Hello!"
    assert said("They greet me, and", size, is_inside=True) == ""


def test_a_thought_that_was_shown_is_an_error_that_says_what_to_set() -> None:
    with pytest.raises(BotError, match="starts_thinking: true"):
        said("They greet me.</think>Hello!", 5)


def test_whole_texts_lose_their_thoughts_too() -> None:
    assert without_thoughts("<think>a</think> Hello <Think>b") == "Hello"
    assert without_thoughts("it begins in one</think>Hello") == "Hello"
    assert without_thoughts("<think>only this</think>") == ""
    assert without_thoughts(" 1 < 2 ") == " 1 < 2 "
