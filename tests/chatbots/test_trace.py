"""Traces of replies: reasoning and tool calls as endpoints report them, kept apart from the text."""

import asyncio
import json
from typing import Any

import pytest

from chatbots import Conversation
from chatbots.bots.base import BotError
from chatbots.serving import reply
from chatbots.trace import (
    MAX_STEPS,
    STEP_MAX_CHARS,
    TRACE_MAX_CHARS,
    CallDelta,
    TraceLog,
    TraceStep,
    listen_to_trace,
    read_trace,
)
from chatbots.validation import ValuesError
from tests.chatbots.endpoint_server import SSE, Answer, Send, Server, says, serving

pytestmark = pytest.mark.usefixtures("meter")

CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": '}}
MORE = {"index": 0, "function": {"arguments": '"tea"}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "Green tea."}


def streams(*deltas: dict[str, Any], finish: str = "stop") -> Answer:
    """Answer with these deltas, each in an event of its own."""

    async def answer(server: Server, send: Send) -> None:
        await send(SSE + b"\r\n")
        for delta in deltas:
            await send(b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n")
        await send(
            b"data: " + json.dumps({"choices": [{"delta": {}, "finish_reason": finish}]}).encode() + b"\n\n"
            b"data: [DONE]\n\n"
        )

    return answer


async def asked(server: Server, **params: Any) -> tuple[str, TraceLog, list[tuple[int, TraceStep]]]:
    told: list[tuple[int, TraceStep]] = []
    log = TraceLog(lambda number, step: told.append((number, step)))
    listen_to_trace(log)
    said = [piece async for piece in server.bot(**params).stream(Conversation.from_texts(["hi"]))]
    return "".join(said), log, told


@pytest.mark.parametrize(
    "thought",
    [
        [{"reasoning_content": "I should "}, {"reasoning_content": "search."}],
        [{"reasoning": "I should "}, {"reasoning": "search.", "reasoning_details": [{"text": "search."}]}],
        [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I should search."}]}]}],
        [{"content": "<thi"}, {"content": "nk>\nI should search.\n</think>\n\n"}],
    ],
)
async def test_reasoning_and_calls_are_steps_and_no_part_of_the_reply(thought: list[dict[str, Any]]) -> None:
    deltas = [
        *thought,
        {"tool_calls": [CALL]},
        {"tool_calls": [MORE]},
        RESULT,
        {"content": "Drink "},
        {"content": "it."},
    ]
    async with serving(streams(*deltas)) as server:
        said, log, told = await asked(server)
    assert said == "Drink it."
    thinks, calls = log.steps
    assert thinks == TraceStep(kind="reasoning", text="I should search.")
    assert calls.model_copy(update={"seconds": None}) == TraceStep(
        kind="tool", name="search", arguments='{"q": "tea"}', text="Green tea."
    )
    assert calls.seconds is not None
    assert [number for number, _ in told] == [0, 1]
    assert told[-1] == (1, calls)


async def test_results_come_in_the_ways_of_todays_endpoints() -> None:
    groq = {"executed_tools": [{"index": 0, "type": "python", "arguments": '{"code": "1+1"}', "output": "2"}]}
    own = {
        "tool_calls": [{"index": 1, "id": "b", "function": {"name": "now"}, "result": {"hour": 3}, "is_error": True}]
    }
    async with serving(streams(groq, own, {"content": "Done."})) as server:
        said, log, _ = await asked(server)
    assert said == "Done."
    assert log.steps == (
        TraceStep(kind="tool", name="python", arguments='{"code": "1+1"}', text="2"),
        TraceStep(kind="tool", name="now", text='{"hour": 3}', failed=True),
    )


async def test_parallel_calls_that_all_have_the_index_0_stay_apart() -> None:
    second = {**CALL, "id": "c2", "function": {"name": "clock", "arguments": "{}"}}
    deltas = [{"tool_calls": [CALL, second]}, {**RESULT, "tool_call_id": "c2", "content": "3 pm"}, RESULT]
    async with serving(streams(*deltas, {"content": "Yes."})) as server:
        _, log, told = await asked(server)
    assert [(step.name, step.text) for step in log.steps] == [("search", "Green tea."), ("clock", "3 pm")]
    assert [number for number, _ in told] == [0, 1, 0]


async def test_a_whole_answer_has_its_steps_without_times() -> None:
    message = {"content": "Hi.", "reasoning": "Be kind.", "tool_calls": [{**CALL, "output": "x"}]}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()

    async def whole(server: Server, send: Send) -> None:
        await send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n" + body)

    async with serving(whole) as server:
        said, log, _ = await asked(server)
    assert said == "Hi."
    assert [(step.kind, step.text, step.seconds) for step in log.steps] == [
        ("reasoning", "Be kind.", None),
        ("tool", "x", None),
    ]


async def test_a_call_that_nobody_runs_gives_no_reply_and_says_why() -> None:
    async with serving(streams({"tool_calls": [CALL]}, finish="tool_calls")) as server:
        with pytest.raises(BotError, match="Confab runs no tools"):
            await asked(server, retries=0)


async def test_results_of_10_mb_are_cut_with_a_word_and_hostile_texts_are_stored_clean() -> None:
    huge = {**RESULT, "content": "a\x00b\ud800" + "x" * 10_000_000}
    odd = {"tool_calls": [None, 7, {"index": "x", "function": 3, "arguments": [1], "output": "r"}], "reasoning": 3}
    async with serving(streams({"tool_calls": [CALL]}, huge, odd, {"content": "Fine."})) as server:
        said, log, _ = await asked(server)
    assert said == "Fine."
    first, second = log.steps
    assert first.text is not None
    assert first.text.startswith("ab\ufffdxxx")
    assert first.text.endswith("x [… cut: 10,000,004 characters]")
    assert STEP_MAX_CHARS - 1 <= first.text.index(" [") <= STEP_MAX_CHARS
    assert (second.arguments, second.text) == ("[1]", "r")


async def test_a_failed_attempt_leaves_no_step_and_the_key_is_in_none(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-test-abcdefgh12345678"
    monkeypatch.setenv("H4_KEY", key)
    early = "x" * (STEP_MAX_CHARS - 5)
    first = streams({"reasoning": "lost"}, {"tool_calls": [CALL]}, finish="tool_calls")
    second = streams({"reasoning": f"{early}{key}"}, {"tool_calls": [{**CALL, "output": key}]}, {"content": "Ok."})
    async with serving(first, second) as server:
        said, log, _ = await asked(server, api_key_env="H4_KEY", retries=1)
    assert said == "Ok."
    texts = " ".join(f"{step.arguments} {step.text}" for step in log.steps)
    assert "lost" not in texts
    assert key[:8] not in texts
    assert log.steps[1].text == "[key]"


async def test_self_play_has_each_replys_own_steps_and_prompts_have_none() -> None:
    async with serving(streams({"reasoning": "secret plan"}, {"content": "Hello."})) as server:
        bot = server.bot()
        contexts = [Conversation.from_texts(["a"], id="a"), Conversation.from_texts(["b"], id="b")]
        replies = await asyncio.to_thread(reply, bot, contexts)
        assert [reply.trace for reply in replies] == [(TraceStep(kind="reasoning", text="secret plan"),)] * 2
        context = contexts[0].with_turn("bot", "Hello.", trace=replies[0].trace).with_turn("human", "more")
        assert [one.text for one in await asyncio.to_thread(reply, bot, [context])] == ["Hello."]
    assert "secret plan" not in json.dumps(server.requests)


async def test_plain_replies_have_no_steps() -> None:
    async with serving(says("Hi.")) as server:
        said, log, told = await asked(server)
    assert (said, log.steps, told) == ("Hi.", (), [])


def test_all_steps_together_are_bounded() -> None:
    log = TraceLog()
    for number in range(MAX_STEPS + 10):
        log.call([CallDelta(index=number, arguments="a" * STEP_MAX_CHARS, result="r" * 2 * STEP_MAX_CHARS)])
    assert len(log.steps) == MAX_STEPS
    n_chars = sum(len(step.arguments) + len(step.text or "") for step in log.steps)
    assert TRACE_MAX_CHARS <= n_chars < TRACE_MAX_CHARS + 100 * MAX_STEPS


@pytest.mark.parametrize(
    ("stored", "path"),
    [
        ("x", "trace"),
        ([{"kind": "dance"}], "trace[0].kind"),
        ([{"kind": "tool", "seconds": -1}], "trace[0].seconds"),
        ([{"kind": "tool", "text": 3}], "trace[0].text"),
        ([{"kind": "tool", "why": "x"}], "trace[0].why"),
        ([{"kind": "reasoning"}] * (MAX_STEPS + 1), "trace"),
    ],
)
def test_an_imported_trace_that_is_none_is_told_with_its_path(stored: Any, path: str) -> None:
    with pytest.raises(ValuesError) as wrong:
        read_trace(stored)
    assert path in [mistake.path for mistake in wrong.value.mistakes]


def test_an_imported_trace_is_cut_and_cleaned_as_a_new_one() -> None:
    [step] = read_trace([{"kind": "tool", "name": "n\x00", "text": "y" * 1_000_000}])
    assert step.name == "n"
    assert step.text is not None
    assert step.text.endswith("[… cut: 1,000,000 characters]")
    assert read_trace([step.model_dump()]) == (step,)
