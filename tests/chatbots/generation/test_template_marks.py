"""Marks of chat templates come off replies, however the replies are cut into pieces."""

from __future__ import annotations

import time

import pytest

from chatbots import Conversation
from chatbots.bots.endpoint import EndpointBot
from chatbots.bots.gguf import GgufBot
from chatbots.bots.transformers_bot import TransformersBot
from chatbots.generation.decoding import ReplyRow
from chatbots.generation.output_filter import OutputFilter
from chatbots.generation.streamed_text import GrowingText


def shown_split(text: str, at: int) -> str:
    reply = OutputFilter()
    return reply.take(text[:at]) + reply.take(text[at:]) + reply.end()


def shown_by(text: str, size: int) -> str:
    reply = OutputFilter()
    pieces = [reply.take(text[i : i + size]) for i in range(0, len(text), size)]
    return "".join(pieces) + reply.end()


def everywhere(text: str, expected: str) -> None:
    for at in range(len(text) + 1):
        assert shown_split(text, at) == expected, at
    assert shown_by(text, 1) == expected


ENDS = [
    *("<|im_end|>", "</s>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>"),
    *("<end_of_turn>", "<eos>", "<|end|>", "<|return|>", "<|END_OF_TURN_TOKEN|>", "<turn|>"),
    *("<｜end▁of▁sentence｜>", "<|END_RESPONSE|>", "<|endofturn|>", "[/INST]", "[EOS]"),
]


@pytest.mark.parametrize("end", ENDS)
def test_end_marks_come_off_the_end_and_stay_within_a_sentence(end: str) -> None:
    everywhere(f"Hello there.{end}", "Hello there.")
    everywhere(f"Hello there. \n{end}\n{end} ", "Hello there.")
    everywhere(f"A turn ends with {end}, as I said.", f"A turn ends with {end}, as I said.")
    everywhere(f"Write `{end}`.", f"Write `{end}`.")


@pytest.mark.parametrize(
    "turn",
    [
        "<|im_end|>\n<|im_start|>user\nhi",
        "<|im_start|>user\nhi",
        "\n<|im_start|>assistant",
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi",
        "<|start_header_id|>user<|end_header_id|>\n\nhi",
        "<end_of_turn>\n<start_of_turn>user\nhi",
        "</s><|user|>\nhi",
        "\n<|user|>\nhi",
        "</s> [INST] hi [/INST]",
        "<|end|><|start|>user<|message|>hi",
        "<turn|>\n<|turn>user\nhi",
        "</s>User: hi",
        "<|im_end|>\nuser\nhi",
        "<|im_end|>\nuser",
        "</s>### Human: hi",
        "<｜end▁of▁sentence｜><｜User｜>hi",
    ],
)
def test_a_made_up_turn_is_cut(turn: str) -> None:
    everywhere(f"Hello there.{turn}", "Hello there.")


@pytest.mark.parametrize(
    "beginning",
    [
        "<|im_start|>assistant\n",
        "<s> ",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<start_of_turn>model\n",
        "<|assistant|>\n",
        "\n\n ",
        "<|start|>assistant<|channel|>analysis<|message|>hm<|end|>"
        "<|start|>assistant<|channel|>final<|message|>",
    ],
)
def test_the_beginning_of_the_models_own_turn_is_left_out(beginning: str) -> None:
    everywhere(f"{beginning}Hello there.", "Hello there.")


@pytest.mark.parametrize(
    "text",
    [
        "User: hi is how a log begins.",
        "Two lines:\nUser: hi\nAssistant: hello",
        "The marks <|user|> and <|assistant|> are of Zephyr.",
        "One writes `<|im_start|>user\n` first.",
        "a < b </b> [x] <|",
        "Users: two.\n\nBots:  one.",
        "user",
    ],
)
def test_honest_text_stays(text: str) -> None:
    everywhere(text, text)


@pytest.mark.parametrize("text", ["", " \n ", "<|im_end|>", "<|im_start|>user\nhi", "<s></s>"])
def test_nothing_is_left_of_marks_alone(text: str) -> None:
    everywhere(text, "")


def test_long_texts_take_time_in_proportion() -> None:
    began = time.monotonic()
    for text in (" " * 10_000, "</s>" * 2_000, "<|" * 5_000, "<think a=" * 1_000, "\n" * 5_000):
        shown_by(f"x{text}y", 50)
    assert time.monotonic() - began < 30


SENT = [
    "<thinking>Greet. </thinking>\n\nHello there.<|im_end|>\n<|im_start|>user\nhi",
    "<plan>Greet. </plan>Hello there.</s>",
    "[THINK]Greet.[/THINK]Hello there.<|eot_id|><|start_header_id|>user",
]


@pytest.mark.parametrize("kind", [EndpointBot, TransformersBot, GgufBot])
@pytest.mark.parametrize("sent", SENT)
def test_every_kind_of_language_model_keeps_the_same_promise(kind: type, sent: str) -> None:
    options = kind(name="b", model="m", thought_marks={"<plan>": "</plan>"}).options
    growing = GrowingText(make_filter=options.reply_filter)
    shown = "".join(growing.grow(sent[:n])[0] for n in range(len(sent) + 1)) + growing.end(sent)
    assert shown == "Hello there."
    inside = kind(name="b", model="m", starts_thinking=True).options.reply_filter()
    assert inside.take("Greet.</think>Hello") == "Hello"


def test_a_slot_stops_where_another_turn_begins_and_fails_alone_after_a_shown_thought() -> None:
    context = Conversation.from_texts(["hi"])
    slot = ReplyRow(0, context, max_tokens=9, make_filter=OutputFilter)
    assert (
        slot.piece("Hello there.<|im_end|>\n<|im_start|>user", ended=False).text == "Hello there."
    )
    failing = ReplyRow(1, context, max_tokens=9, make_filter=OutputFilter)
    assert failing.piece("They greet me, so ", ended=False).text == "They greet me,"
    piece = failing.piece("They greet me, so </think>Hi", ended=False)
    assert (piece.done, "starts_thinking" in (piece.error or "")) == (True, True)
