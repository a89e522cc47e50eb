"""Thoughts of reasoning models are taken out, however they are cut into pieces."""

from __future__ import annotations

import pytest

from chatbots.bots.base import BotError
from chatbots.generation.output_filter import ReasoningFilter, strip_reasoning


def said(text: str, size: int, *, is_inside: bool = False, marks: dict | None = None) -> str:
    """Return what is passed on of a text that comes in pieces of so many characters."""
    thoughts = ReasoningFilter(marks, is_inside=is_inside)
    pieces = [thoughts.take(text[i : i + size]) for i in range(0, len(text), size)]
    return "".join(pieces) + thoughts.end()


def said_split(text: str, at: int) -> str:
    thoughts = ReasoningFilter({"<plan>": "</plan>"})
    return thoughts.take(text[:at]) + thoughts.take(text[at:]) + thoughts.end()


MARKED = [
    ("<think>", "</think>"),
    ("<Think >", "</THINK >"),
    ('<think time="2">', "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning effort='low'>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
    (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
    (
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
        "<|call|><|start|>assistant<|channel|>final<|message|>",
    ),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
    (
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final <|constrain|>text<|message|>",
    ),
    ("analysisThe ", "assistantfinal"),
    ("<plan>", "</plan>"),
]


@pytest.mark.parametrize(("opening", "closing"), MARKED)
def test_every_mark_is_known_split_at_every_character(opening: str, closing: str) -> None:
    thought = f'{opening}User greets; a < b, so I say "`{closing.split("<|start")[0]}`".{closing}'
    text = f"{thought}\n\nHello there."
    for at in range(len(text) + 1):
        assert said_split(text, at) == "Hello there.", at
    unfinished = text[: text.rindex(closing)]
    for at in range(len(unfinished) + 1):
        assert said_split(unfinished, at) == ""
    assert said(text, 1, marks={"<plan>": "</plan>"}) == "Hello there."


@pytest.mark.parametrize(
    ("opening", "closing"), [marks for marks in MARKED[:-2] if "<|end|>" not in marks[0]]
)
def test_quoted_marks_are_text(opening: str, closing: str) -> None:
    opening, closing = opening.strip(), closing.partition("<|start|>")[0]
    text = f'One writes `{opening}` or "{opening}" before, and “{closing}” or `{closing}` after it.'
    for at in range(len(text) + 1):
        assert said_split(text, at) == text, at


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>They greet me.</think>\n\nHello!", "Hello!"),
        ("\n<THINK>a < b</Think> Hello!", "Hello!"),
        ("Hello <think>what else?</think>there", "Hello there"),
        ("<think>one</think><think>two</think>Hello", "Hello"),
        ("<think>It never ends. </thin", ""),
        ("<think>So <thought> is a tag, and </thought> too.</think>Hello", "Hello"),
        ('<think>I say "hi"</think>"Hi!"', '"Hi!"'),
        ("Well, <think>it never ends", "Well, "),
        ("</think>\nHello", "Hello"),
        ("I think <b>a</b> < c <th", "I think <b>a</b> < c <th"),
        ("<thinking hard>", "<thinking hard>"),
        ("I like [THINKING] and analysis.", "I like [THINKING] and analysis."),
        ("analysis is fun", "analysis is fun"),
        ("  plain", "  plain"),
    ],
)
def test_only_what_is_said_is_passed_on(text: str, left: str, size: int) -> None:
    assert said(text, size).lstrip() == left.lstrip()
    assert "think>" not in said(text, size).lower()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "text",
    [
        "In HTML you may write `</think>` after a thought.",
        "As in `a</think>`, it ends.",
        "So:\n```\nhm\n</think>\nHello\n```\nas I said.",
    ],
)
def test_a_reply_may_speak_of_a_closing_mark(text: str, size: int) -> None:
    assert said(text, size) == text


def test_text_without_thoughts_is_not_held_back() -> None:
    thoughts = ReasoningFilter()
    assert [thoughts.take(piece) for piece in ("Hel", "lo <", "3 you")] == ["Hel", "lo ", "<3 you"]


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_reply_that_begins_within_a_thought_is_held_back_until_its_end(size: int) -> None:
    assert said("They greet me.</think>\nHello!", size, is_inside=True) == "Hello!"
    assert said("They greet me.[/THINK]\nHello!", size, is_inside=True) == "Hello!"
    assert said("They greet me, and", size, is_inside=True) == ""


def test_a_thought_that_was_shown_is_an_error_that_says_what_to_set() -> None:
    with pytest.raises(BotError, match="starts_thinking: true"):
        said("They greet me.</think>Hello!", 5)


def test_whole_texts_lose_their_thoughts_too() -> None:
    assert strip_reasoning("<think>a</think> Hello <Think>b") == "Hello"
    assert strip_reasoning("it begins in one</think>Hello") == "Hello"
    assert strip_reasoning("<think>only this</think>") == ""
    assert strip_reasoning("<plan>a</plan>Hello", {"<plan>": "</plan>"}) == "Hello"
    assert strip_reasoning(" 1 < 2 ") == " 1 < 2 "
