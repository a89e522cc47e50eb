"""Generated text: reasoning and marks are taken out, nothing broken is shown, and nothing is taken back."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatbots import Conversation
from chatbots.bots.base import BotError
from chatbots.bots.endpoint import EndpointBot
from chatbots.bots.gguf import GgufBot
from chatbots.bots.transformers_bot import TransformersBot
from chatbots.generation.decoding import ReplyRow
from chatbots.generation.output_filter import OutputFilter, ReasoningFilter, strip_reasoning
from chatbots.generation.streamed_text import GrowingText, SentencePieces, complete_length


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
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
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


@pytest.mark.parametrize(("opening", "closing"), [marks for marks in MARKED[:-2] if "<|end|>" not in marks[0]])
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


def shown_split(text: str, at: int) -> str:
    reply = OutputFilter()
    return reply.take(text[:at]) + reply.take(text[at:]) + reply.end()


def shown_by(text: str, size: int) -> str:
    reply = OutputFilter()
    pieces = [reply.take(text[i : i + size]) for i in range(0, len(text), size)]
    return "".join(pieces) + reply.end()


def everywhere(text: str, expected: str) -> None:
    """Check what is shown of a text, wherever it is split."""
    for at in range(len(text) + 1):
        assert shown_split(text, at) == expected, at
    assert shown_by(text, 1) == expected


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("<think>Greets.</think><answer>Hello there.</answer>", "Hello there."),
        ("<think>Greets.</think>\n<|begin_of_box|>Hello there.<|end_of_box|>", "Hello there."),
        ("<response>\nHello there.\n</response>\n", "Hello there."),
        ("<Answer>Hello there.</answer> Because they greet.", "Hello there."),
        ("<answer>Hello there.</answer><|im_end|>", "Hello there."),
        ("<answer>Hello there.", "Hello there."),
        ("assistant\n\nHello there.", "Hello there."),
        ("model\nHello there.", "Hello there."),
        ("Assistant: Hello there.", "Hello there."),
        ("### Response:\nHello there.", "Hello there."),
        ("Hello there.assistant\n\nHow are", "Hello there."),
        *(
            (text, text)
            for text in (
                "assistant professors are fine.",
                "<answers> are tags.",
                "Write <answer>x</answer> please.",
                "I said </answer>.",
                "Ask your assistant\n\nif you like.",
            )
        ),
    ],
)
def test_wrappers_of_a_reply_come_off_and_the_same_words_within_stay(text: str, reply: str) -> None:
    everywhere(text, reply)


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
        "<|start|>assistant<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>",
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
    text = "".join(growing.grow(sent[:n])[0] for n in range(len(sent) + 1)) + growing.end(sent)
    assert text == "Hello there."
    inside = kind(name="b", model="m", starts_thinking=True).options.reply_filter()
    assert inside.take("Greet.</think>Hello") == "Hello"


def test_a_slot_stops_where_another_turn_begins_and_fails_alone_after_a_shown_thought() -> None:
    context = Conversation.from_texts(["hi"])
    slot = ReplyRow(0, context, max_tokens=9, make_filter=OutputFilter)
    assert slot.piece("Hello there.<|im_end|>\n<|im_start|>user", ended=False).text == "Hello there."
    failing = ReplyRow(1, context, max_tokens=9, make_filter=OutputFilter)
    assert failing.piece("They greet me, so ", ended=False).text == "They greet me,"
    piece = failing.piece("They greet me, so </think>Hi", ended=False)
    assert (piece.done, "starts_thinking" in (piece.error or "")) == (True, True)


def shown(beginnings: list[str], stops: tuple[str, ...] = ()) -> list[str]:
    """Return the pieces shown as a text grows."""
    growing = GrowingText(stops)
    pieces = []
    for text in beginnings[:-1]:
        piece, stopped = growing.grow(text)
        pieces.append(piece)
        if stopped:
            return pieces
    return [*pieces, growing.end(beginnings[-1])]


def test_broken_characters_are_never_shown():
    assert shown(["caf\ufffd", "caf\ufffd\ufffd", "café", "café au", "café au\ufffd"]) == ["", "", "", "café", " au"]


def test_the_beginning_of_a_stop_is_held_back():
    texts = ["a b", "a b c END", "a b c END now", "a b c END nowhere"]
    assert "".join(shown([*texts, texts[-1]], ("END of it",))) == "a b c END nowhere"
    assert "".join(shown([*texts[:2], "a b c END of it", ""], ("END of it",))) == "a b c"


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_nothing_but_blanks_is_nothing(text):
    assert shown([text, text]) == ["", ""]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("I am here. And you are", "I am here."),
        ("Really? Yes! I would", "Really? Yes!"),
        ('He said "No." Then he', 'He said "No."'),
        ("Great! 😊 I would", "Great! 😊"),
        ("你好。我是", "你好。"),
        ("你好吗？我很好！今天天气", "你好吗？我很好！"),
        ("We saw Mr. Smith and Dr. Jones in the", None),
        ("Well... I think that J. K. Rowling has", None),
        ("Do this:\n1. Sit down\n2. Stand", "Do this:\n1. Sit down"),
        ("It was in 1999. Since then", "It was in 1999."),
        ("It costs 3.5 dollars and", None),
        ("So do I. We should", "So do I."),
        ("नमस्ते! मैं ठीक हूँ। आज मौसम अच्छा है। हम बाहर जा", "नमस्ते! मैं ठीक हूँ। आज मौसम अच्छा है।"),
        ("मैं ठीक हूँ।आज", "मैं ठीक हूँ।"),
        ("أهلا! هل أنت بخير؟ أنا هنا من أجل المسا", "أهلا! هل أنت بخير؟"),
        ("آپ کیسے ہیں؟ میں ٹھیک ہوں۔ آج مو", "آپ کیسے ہیں؟ میں ٹھیک ہوں۔"),
        ("Γεια σου! Τι κάνεις; Εγώ είμαι κα", "Γεια σου! Τι κάνεις;"),
        ("Բարև։ Ինչպես ես։ Ես լա", "Բարև։ Ինչպես ես։"),
        ("မင်္ဂလာပါ။ နေကောင်းလား။ ကျွန်", "မင်္ဂလာပါ။ နေကောင်းလား။"),
        ("for (a; b; c", None),
        ("```py\nprint(1)\nprint(2)\nfor i in ra", "```py\nprint(1)\nprint(2)"),
        ("Sure! Here are three cities:\n- Paris\n- Rome\n- Lond", "Sure! Here are three cities:\n- Paris\n- Rome"),
        ("Sure! A very long second sentence that never comes to its e", None),
        ("nothing ends", None),
        ("", None),
    ],
)
def test_a_cut_text_keeps_its_last_whole_line_or_sentence_and_at_least_half(text, end):
    assert text[: complete_length(text)] == (text if end is None else end)


def test_a_text_that_is_cut_ends_with_its_last_whole_sentence():
    growing = GrowingText()
    text = "I like it. It rains a lot here. But the sum"
    pieces = [growing.grow(text[:n])[0] for n in range(1, len(text) + 1)]
    assert "".join(pieces) == "I like it. It rains a lot here."
    assert growing.end(text, cut=True) == ""
    # Nothing has to be taken back: a sentence comes word by word once it is as long as all before it.
    assert [piece for piece in pieces if piece] == ["I", " like", " it.", " It rains a lot", " here."]


def test_a_list_comes_line_by_line_and_a_long_sentence_word_by_word_again():
    growing = GrowingText()
    text = "Two:\n- Paris\n- Rome\n- Lond"
    pieces = [growing.grow(text[:n])[0] for n in range(1, len(text) + 1)]
    assert [piece for piece in pieces if piece] == ["Two:", "\n- Paris", "\n- Rome"]
    assert growing.end(text, cut=True) == ""
    growing = GrowingText()
    text = "Sure! A sentence that goes on and on"
    pieces = [growing.grow(text[:n])[0] for n in range(1, len(text) + 1)]
    assert [piece for piece in pieces if piece] == ["Sure!", " A sentence that", " goes", " on", " and"]
    assert growing.end(text, cut=True) == " on"


def test_a_text_without_a_whole_sentence_stays_as_it_is():
    growing = GrowingText()
    assert growing.grow("a wide road to")[0] == "a wide road"
    assert growing.end("a wide road to the", cut=True) == " to the"


@given(st.text(alphabet='aB .!?\n1"。؟😊', max_size=40))
def test_what_was_shown_is_never_taken_back_by_the_cut(text):
    growing = GrowingText()
    pieces = [growing.grow(text[:n])[0] for n in range(1, len(text) + 1)]
    pieces.append(growing.end(text, cut=True))
    whole = text.strip()
    assert "".join(pieces) == whole[: complete_length(whole)]


def test_pieces_pass_until_a_sentence_is_whole_and_then_wait_for_the_next():
    stream = SentencePieces()
    pieces = [stream.take(p) for p in ("He", "llo. A", "re you", " well? It", " is 3.", "5 ", "degr")]
    assert pieces == ["He", "llo.", "", " Are you well?", "", "", ""]
    assert stream.end(cut=True) == ""


@example(given_pieces=["B! 😊", " a"], cut=True)
@example(given_pieces=["3.", "5 a"], cut=True)
@example(given_pieces=["1", "؟", "😊", "1"], cut=True)
@given(given_pieces=st.lists(st.text(alphabet='aB .!?\n1"。؟😊', max_size=6), max_size=12), cut=st.booleans())
def test_pieces_joined_are_the_whole_sentences(given_pieces, cut):
    stream = SentencePieces()
    shown = "".join([stream.take(piece) for piece in given_pieces]) + stream.end(cut=cut)
    text = "".join(given_pieces)
    assert shown == text[: complete_length(text) if cut else None]
