"""Endpoint bots in trouble: thoughts, patience, limits shared per address, other ways, hostile servers."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from chatbots import Conversation
from chatbots.bots.base import BotError, set_deadline
from chatbots.bots.endpoint import EndpointBot
from chatbots.endpoints import addresses, chat_completions
from chatbots.endpoints.errors import read_refusal, retry_after_s
from chatbots.endpoints.metering import MemoryMeter
from chatbots.endpoints.options import KeyFilter
from tests.chatbots.endpoint_server import SSE, Answer, Send, Server, chunk, counts, fails, hangs, pieces, says, serving

pytestmark = pytest.mark.usefixtures("meter")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the waits that bots ask for; none of them is waited out, but the clock says it was."""
    asked: list[float] = []
    now = time.monotonic

    async def sleep(seconds: float) -> None:
        asked.append(seconds)
        monkeypatch.setattr(addresses, "monotonic", lambda: now() + sum(asked))

    monkeypatch.setattr(addresses, "sleep", sleep)
    return asked


# Thoughts.


async def test_thoughts_reach_neither_reader_nor_the_next_prompt() -> None:
    async with serving(says("<th", "ink>They gr", "eet.</thi", "nk>\n\nHel", "lo!")) as server:
        assert await pieces(server.bot(), "hi") == ["Hel", "lo!"]
        old = "<think>A secret plan.</think>Hello!"
        await pieces(server.bot(), "hi", old, "and?")
        await pieces(server.bot(), "hi", "<think>nothing but a thought", "and?")
    assert server.requests[1]["messages"][1] == {"role": "assistant", "content": "Hello!"}
    assert server.requests[2]["messages"] == [{"role": "user", "content": "hi\nand?"}]


async def test_a_model_that_only_thinks_has_failed_and_is_charged(meter: MemoryMeter) -> None:
    async with serving(counts(10, 20, "<think>", "It never ends.")) as server:
        bot = server.bot(retries=0, price_in=1e6, price_out=1e6)
        with pytest.raises(BotError, match="no text apart from reasoning"):
            await pieces(bot, "hi")
    assert meter.spent == {"e": 30}


async def test_a_template_that_opens_the_thought_is_told_of_in_the_settings() -> None:
    async with serving(says("They greet.", "</think>", "Hello!")) as server:
        assert await pieces(server.bot(starts_thinking=True), "hi") == ["Hello!"]
        with pytest.raises(BotError, match="starts_thinking"):
            await pieces(server.bot(), "hi")


async def test_thoughts_in_a_field_of_their_own_are_left_there() -> None:
    async def reasons(server: Server, send: Send) -> None:
        data = b'data: {"choices": [{"delta": {"reasoning_content": "hm", "content": null}}]}\n\n'
        await send(SSE + b"\r\n" + data + chunk("Hello") + chunk(finish="stop"))

    async with serving(reasons) as server:
        assert await pieces(server.bot(), "hi") == ["Hello"]


# Further fields.


async def test_further_settings_pass_through_and_are_in_the_identity() -> None:
    async with serving(says("ok")) as server:
        bot = server.bot(top_p=0.9, stop=["\n\n"], extra_body={"top_k": 20, "cache": {"on": True}})
        await pieces(bot, "hi")
        plain = server.bot()
        await pieces(plain, "hi")
    sent, without = server.requests
    assert (sent["top_p"], sent["stop"], sent["top_k"]) == (0.9, ["\n\n"], 20)
    assert sent["cache"] == {"on": True}
    assert not {"top_p", "stop", "extra_body"} & set(without)
    assert bot.identity.key != plain.identity.key
    assert bot.identity.as_dict()["params"]["extra_body"] == {"top_k": 20, "cache": {"on": True}}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.5}, "at most 1"),
        ({"stop": ["a", ""]}, r"stop\[1\] is ''; it must be a text that is not empty"),
        ({"extra_body": {"stream": False}}, "extra_body contains 'stream'"),
        ({"extra_body": {"max_tokens": 10_000}}, "extra_body contains 'max_tokens'"),
        ({"extra_body": {"api_key": "x"}}, "must not contain secrets"),
        ({"extra_body": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}, "cannot be sent as JSON"),
        ({"extra_body": {"top_k": float("nan")}}, "cannot be sent as JSON"),
        ({"fallback_url": "example.org"}, "fallback_url is 'example.org'"),
        ({"fallback_model": "m"}, "fallback_url, the address that it belongs to"),
        ({"fallback_bot": "e"}, "the bot itself"),
        ({"base_url": "https://me:word@example.org/v1"}, "without password"),
    ],
)
def test_settings_that_cannot_work_are_refused(params: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        EndpointBot(name="e", model="m", **params)
    assert "word@" not in str(caught.value)


# Patience.


def test_patience_is_asked_for_in_seconds_or_by_a_date() -> None:
    in_a_minute = datetime.now(UTC) + timedelta(seconds=60)
    date = format_datetime(in_a_minute, usegmt=True)
    assert retry_after_s({"retry-after": date}) == pytest.approx(60, abs=2)
    assert retry_after_s({"retry-after": "7.5"}) == 7.5
    assert retry_after_s({"retry-after": "-3"}) == 0
    for nonsense in ("", "soon", "inf", "nan", "Mon, 99 Nov"):
        assert retry_after_s({"retry-after": nonsense}) is None


def busy(headers: str) -> object:
    async def answer(server: Server, send: Send) -> None:
        await send(f"HTTP/1.1 429 X\r\n{headers}content-length: 0\r\n\r\n".encode())

    return answer


async def test_patience_that_fits_the_deadline_is_had_with_jitter(waits: list[float]) -> None:
    async with serving(busy("retry-after: 20\r\n"), says("fine")) as server:
        set_deadline(time.monotonic() + 60)
        assert await pieces(server.bot(), "hi") == ["fine"]
    assert len(waits) == 1
    assert 19.5 < waits[0] <= 20 * (1 + addresses.JITTER)


async def test_patience_beyond_the_deadline_fails_at_once(waits: list[float]) -> None:
    async with serving(busy("retry-after: 90\r\n"), says("never asked")) as server:
        bot, other = server.bot(), server.bot(name="another")
        set_deadline(time.monotonic() + 60)
        with pytest.raises(BotError, match=r"model m .* asks clients to wait .* wait 90 s.* due in 60 s"):
            await pieces(bot, "hi")
        with pytest.raises(BotError, match="asks clients to wait"):
            await pieces(other, "hi")
    assert waits == []
    assert len(server.requests) == 1, "the pause holds for every bot of this model"


async def busy_for_free(server: Server, send: Send) -> None:
    if server.requests[-1]["model"] != "free":
        await says("ok")(server, send)
        return
    await fails(429, "free-models-per-day", headers="retry-after: 54000\r\n", retry_after=None)(server, send)


async def test_a_models_429_holds_no_other_model_back_and_hours_are_told(waits: list[float]) -> None:
    async with serving(busy_for_free) as server:
        free, other = server.bot(name="a", model="free"), server.bot(name="b", model="other")
        for _ in range(2):
            set_deadline(time.monotonic() + 60)
            with pytest.raises(BotError, match=r"free-models-per-day; it asks to wait 15 h"):
                await pieces(free, "hi")
        assert await pieces(other, "hi") == ["ok"]
    assert waits == []
    assert [request["model"] for request in server.requests] == ["free", "other"], "asking again would not help"


@pytest.mark.parametrize(
    ("message", "is_shared"),
    [
        ("Rate limit reached for gpt-x in organization org-1 on tokens per min", False),
        ("Too many requests for your account", True),
        ("Too many requests from this IP address", True),
        ("This API key sends too many requests", True),
        ("no", False),
    ],
)
async def test_a_429_that_names_the_account_holds_for_every_model(
    message: str, is_shared: bool, waits: list[float]
) -> None:
    async with serving(fails(429, message, headers="retry-after: 30\r\n", retry_after=None), says("ok")) as server:
        bot, other = server.bot(retries=0), server.bot(name="b", model="other", retries=0)
        set_deadline(time.monotonic() + 20)
        with pytest.raises(BotError, match="30 s"):
            await pieces(bot, "hi")
        if is_shared:
            with pytest.raises(BotError, match="asks clients to wait"):
                await pieces(other, "hi")
        else:
            assert await pieces(other, "hi") == ["ok"]


async def test_without_such_a_wish_the_waits_double(waits: list[float]) -> None:
    async with serving(busy("")) as server:
        with pytest.raises(BotError, match="tried 3 times"):
            await pieces(server.bot(), "hi")
    assert [0.5 <= waits[0] <= 0.625, 1 <= waits[1] <= 1.25] == [True, True]


# Shared per address.


async def test_all_bots_of_an_address_share_its_places() -> None:
    under_way = most = 0
    is_full = asyncio.Event()

    async def slow(server: Server, send: Send) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 3:
            is_full.set()
        await is_full.wait()
        await asyncio.sleep(0)
        under_way -= 1
        await says("ok")(server, send)

    async with serving(slow) as server:
        bots = [server.bot(name="a", concurrency=3), server.bot(name="b", concurrency=8)]
        replies = await asyncio.gather(*(pieces(bots[i % 2], str(i)) for i in range(12)))
    assert replies == [["ok"]] * 12
    assert most == 3


async def test_an_address_that_is_down_is_left_alone_and_tried_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(fails(500), fails(503), fails(500), fails(502), fails(500), says("up")) as server:
        bot, other = server.bot(retries=0), server.bot(name="other", retries=0)
        for _ in range(addresses.FAILURES_BEFORE_REST):
            with pytest.raises(BotError, match="tried once"):
                await pieces(bot, "hi")
        with pytest.raises(BotError, match=r"failed 5 times in a row .*HTTP 500.* is paused"):
            await pieces(other, "hi")
        assert len(server.requests) == 5
        now = time.monotonic
        monkeypatch.setattr(addresses, "monotonic", lambda: now() + addresses.REST_S)
        assert await pieces(other, "hi") == ["up"]
        assert await pieces(bot, "hi") == ["up"]


async def fails_for_broken(server: Server, send: Send) -> None:
    is_broken = server.requests[-1]["model"] == "broken"
    await (fails(500, "out of memory") if is_broken else says("ok"))(server, send)


async def test_a_broken_model_takes_no_turns_from_its_rivals() -> None:
    async with serving(fails_for_broken) as server:
        broken, rival = (server.bot(name=name, model=name, retries=0) for name in ("broken", "rival"))
        for _ in range(addresses.FAILURES_BEFORE_REST):
            with pytest.raises(BotError, match="HTTP 500"):
                await pieces(broken, "hi")
        with pytest.raises(BotError, match=r"model broken at .* failed 5 times.* is paused"):
            await pieces(broken, "hi")
        assert await pieces(rival, "hi") == ["ok"]
        with pytest.raises(BotError, match="is paused"):
            await pieces(broken, "hi")


@pytest.mark.parametrize(
    ("answer", "why"), [(None, "no connection"), (fails(429, "limit of your account"), "too many requests")]
)
async def test_trouble_of_the_address_rests_every_model_there(
    answer: Answer | None, why: str, waits: list[float]
) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(answer or hangs))
        first, other = (server.bot(name=name, model=name, retries=0) for name in ("a", "b"))
        if answer is None:
            await stack.aclose()  # nothing listens there from now on
        for _ in range(addresses.FAILURES_BEFORE_REST):
            with pytest.raises(BotError, match=why):
                await pieces(first, "hi")
        n_requests = len(server.requests)
        with pytest.raises(BotError, match=r"/v1 failed 5 times in a row .* is paused"):
            await pieces(other, "hi")
    assert len(server.requests) == n_requests


@pytest.mark.parametrize("size", [1, 5, 100])
async def test_a_key_that_comes_back_is_cut_from_the_reply(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-test-abcdefgh12345678"
    monkeypatch.setenv("MY_TEST_KEY", key)
    text = f"Your key is {key}, and sk-test-abc is none. {key[:-1]} <think>{key}</think>{key}"
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    async with serving(says(*parts)) as server:
        said = "".join(await pieces(server.bot(api_key_env="MY_TEST_KEY"), "hi"))
    assert said == f"Your key is [key], and sk-test-abc is none. {key[:-1]} [key]"


@pytest.mark.parametrize(("key", "said"), [("abcdefgh", "say [key]"), ("abcdefg", "say abcdefg")])
def test_keys_of_eight_characters_and_more_are_cut(key: str, said: str) -> None:
    keys = KeyFilter([key])
    assert keys.take(f"say {key}") + keys.end() == said


async def test_a_placeholder_for_a_key_is_an_honest_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TEST_KEY", "EMPTY")
    async with serving(says("The box is EMPTY.")) as server:
        assert await pieces(server.bot(api_key_env="MY_TEST_KEY"), "hi") == ["The box is EMPTY."]


async def test_a_wrong_request_is_no_trouble_of_the_address() -> None:
    async with serving(fails(404)) as server:
        bot = server.bot()
        for _ in range(addresses.FAILURES_BEFORE_REST + 1):
            with pytest.raises(BotError, match="HTTP 404"):
                await pieces(bot, "hi")


TOKENS = "max_tokens_field in bots.yaml to max_completion_tokens, or back to max_tokens"
SEED = "send_seed: false in bots.yaml"


@pytest.mark.parametrize("in_stream", [False, True])
@pytest.mark.parametrize(
    ("status", "message", "advice"),
    [
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
         "'max_completion_tokens' instead.", [TOKENS]),
        (422, "body.max_completion_tokens: Extra inputs are not permitted", [TOKENS]),
        (400, "Invalid JSON payload received. Unknown name \"seed\": Cannot find field.", [SEED]),
        (400, "Unrecognized request argument supplied: seed", [SEED]),
        (422, "unknown field `seed`", [SEED]),
        (400, "Unsupported parameter", [TOKENS, SEED]),
        (400, "System role not supported", []),
        (400, "max_tokens is too large: 200. This model supports at most 64 completion tokens.", []),
        (400, "'messages' is not allowed to be empty", []),
        (401, "Unknown key", []),
    ],
)  # fmt: skip
async def test_a_refused_field_is_told_with_the_option_that_changes_it(
    status: int, message: str, advice: list[str], in_stream: bool
) -> None:
    event = json.dumps({"error": {"message": message, "code": status}})
    answer = sends(f"data: {event}\n\n".encode()) if in_stream else fails(status, message)
    async with serving(answer) as server:
        with pytest.raises(BotError) as caught:
            await pieces(server.bot(), "hi")
    assert [one for one in (TOKENS, SEED) if one in str(caught.value)] == advice


async def test_redirects_are_refused_and_the_key_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TEST_KEY", "sk-test-abcdefgh12345678")
    async with serving(says("from elsewhere")) as elsewhere:
        to = f"location: http://127.0.0.1:{elsewhere.port}/v1\r\n"
        async with serving(fails(307, headers=to)) as server:
            with pytest.raises(BotError, match=r"redirects to http://127.* base_url .* final"):
                await pieces(server.bot(api_key_env="MY_TEST_KEY"), "hi")
        assert len(server.requests) == 1
        assert elsewhere.requests == []


# Other ways.


async def test_a_second_address_is_asked_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "other-key")
    context = Conversation.from_texts(["hi"])
    async with serving(fails(500)) as first, serving(says("from the second")) as second:
        url = f"http://127.0.0.1:{second.port}/v1"
        bot = first.bot(fallback_url=url, fallback_model="m2", fallback_api_key_env="OTHER_KEY", price_in=1.0)
        assert [piece async for piece in bot.stream(context)] == ["from the second"]
    assert len(first.requests) == 1, "nobody waits for a second try where there is another way"
    assert second.requests[0]["model"] == "m2"
    assert second.headers[0]["authorization"] == "bearer other-key"
    cost = bot.cost_take(context)
    assert cost.answered_by == url


async def test_the_first_address_that_works_is_not_told_of() -> None:
    context = Conversation.from_texts(["hi"])
    async with serving(says("hello")) as server:
        bot = server.bot(fallback_url="http://127.0.0.1:9/v1")
        assert [piece async for piece in bot.stream(context)] == ["hello"]
    cost = bot.cost_take(context)
    assert cost.answered_by == ""


async def test_an_address_that_hangs_leaves_time_for_the_second() -> None:
    async with serving(hangs) as first, serving(says("hello")) as second:
        bot = first.bot(fallback_url=f"http://127.0.0.1:{second.port}/v1")
        set_deadline(time.monotonic() + 0.4)
        assert await pieces(bot, "hi") == ["hello"]


async def test_where_both_fail_both_are_named() -> None:
    async with serving(fails(500, "first")) as first, serving(fails(503, "second")) as second:
        bot = first.bot(fallback_url=f"http://127.0.0.1:{second.port}/v1", retries=1)
        with pytest.raises(BotError, match=r"tried once.*first; .*tried 2 times.*second"):
            await pieces(bot, "hi")


# Servers that differ at the edges of the format.

CASES = Path(__file__).parents[1] / "cases"
EVENT_STREAM = "text/event-stream"


def sends(body: bytes, kind: str = EVENT_STREAM, *, size: int = 0) -> Answer:
    """Answer with these bytes, in writes of `size` bytes (0: one); an empty `kind` sends no content type."""

    async def answer(server: Server, send: Send) -> None:
        head = f"content-type: {kind}\r\n" if kind else ""
        await send(f"HTTP/1.1 200 OK\r\n{head}connection: close\r\n\r\n".encode())
        for i in range(0, len(body), size or len(body)):
            await send(body[i : i + (size or len(body))])

    return answer


async def reply_to_hi(answer: Answer, **options: Any) -> str:
    async with serving(answer) as server:
        return "".join(await pieces(server.bot(retries=0, **options), "hi"))


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize(
    "name",
    [
        *("sse_bom", "sse_empty_data", "sse_message_not_delta", "sse_no_finish_done", "sse_parts"),
        *("sse_delta_null_message", "sse_answer_tag", "sse_box_tag"),
    ],
)
async def test_other_dialects_of_the_stream_are_read(name: str, size: int) -> None:
    body = (CASES / f"{name}.txt").read_bytes()
    assert await reply_to_hi(sends(body, size=size)) == "Hello there."


async def test_a_refusal_is_the_reply() -> None:
    body = (CASES / "sse_refusal.txt").read_bytes()
    assert await reply_to_hi(sends(body)) == "I cannot help with that."


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("arabic", "أهلا! هل أنت بخير؟"),
        ("hindi", "नमस्ते! मैं ठीक हूँ। आज मौसम अच्छा है।"),
        ("list", "Sure! Here are three cities for you:\n- Paris, for the museums\n- Rome, for the ruins"),
    ],
)
async def test_a_reply_cut_by_its_length_keeps_what_is_whole(name: str, reply: str) -> None:
    assert await reply_to_hi(sends((CASES / f"sse_length_{name}.txt").read_bytes())) == reply


_HELLO = chunk("Hällo ") + chunk("there.")
_WHOLE = (CASES / "http200_json_reply.json").read_bytes()


@pytest.mark.parametrize("finish", [b"", b', "finish_reason": null', b', "finish_reason": ""'])
@pytest.mark.parametrize("done", [b"[DONE]", b"[DONE] ", b" [DONE]\r"])
async def test_done_ends_a_reply_without_a_reason(finish: bytes, done: bytes) -> None:
    said = b'data: {"choices": [{"delta": {"content": "Hello there."}' + finish + b"}]}\n\n"
    assert await reply_to_hi(sends(said + b"data: " + done + b"\n\n")) == "Hello there."
    with pytest.raises(BotError, match="ended before the model reported"):
        await reply_to_hi(sends(said))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (_HELLO + b"data: [DONE]\n\n", "text/event-stream; charset=latin-1"),
        (_HELLO + b"data: [DONE]\n\n", "text/plain; charset=iso-8859-1"),
        (_HELLO + b"data: [DONE]\n\n", "application/json"),
        (_HELLO + b"data: [DONE]\n\n", ""),
        (b": wait\n\nevent: ping\ndata:\n\n" + _HELLO + b"data: [DONE]\n\n", EVENT_STREAM),
        (b"data: : WAIT\n\ndata: ping\n\n" + _HELLO + b"data: keep-alive\n\ndata: [DONE]\n\n", EVENT_STREAM),
        (_HELLO.replace(b"}\n\n", b"}\n: wait\n\n") + chunk(finish="stop"), EVENT_STREAM),
        (_HELLO + chunk(finish="stop") + b'data: {"error": {"message": "shutting down"}}\n\n', EVENT_STREAM),
        (_HELLO.replace(b'"delta"', b'"x": 0, "text": "", "delta"') + chunk(finish="EOS"), EVENT_STREAM),
        (b'data: {"choices": [{"text": "H\xc3\xa4llo there.", "finish_reason": "stop"}]}\n\n', EVENT_STREAM),
        (
            b'data: {"choices": [{"delta": {"content": {"type": "text", "text": "H\xc3\xa4llo there."}}, '
            b'"finish_reason": "end_turn"}]}\n\n',
            EVENT_STREAM,
        ),
        (
            b'data: {"choices": [{"delta": {"content": [{"type": "text", "text": {"value": "H\xc3\xa4llo there."}}]}, '
            b'"finish_reason": "eos_token"}]}\n\n',
            EVENT_STREAM,
        ),
        (
            b'data: {"choices": [{"delta": {"content": ""}, "message": {"content": "H\xc3\xa4llo there."}, '
            b'"finish_reason": "stop"}]}\n\n',
            EVENT_STREAM,
        ),
        (_HELLO.replace(b'"index": 0', b'"index": 0, "x": 1') + b"data: [DONE]", EVENT_STREAM),
        (
            _HELLO
            + b'data: {"choices": [{"index": 1, "delta": {"content": "Other"}}]}\n\n'
            + b'data: {"choices": [{"index": 1, "delta": {}}, {"index": 0, "finish_reason": "stop"}]}\n\n',
            EVENT_STREAM,
        ),
        (
            _HELLO + b'data: {"choices": [{"delta": {}, "message": {"content": "H\xc3\xa4llo there."}, '
            b'"finish_reason": "stop"}]}\n\n',
            EVENT_STREAM,
        ),
        (_WHOLE.replace(b"Hello", "Hällo".encode()), "application/json"),
        (b"\xef\xbb\xbf[" + _WHOLE.replace(b"Hello", "Hällo".encode()) + b"]", "text/plain"),
    ],
)
@pytest.mark.parametrize("size", [0, 1])
async def test_the_same_reply_in_every_dress(body: bytes, kind: str, size: int) -> None:
    assert await reply_to_hi(sends(body, kind, size=size)) == "Hällo there."


async def test_a_whole_answer_is_counted_by_the_endpoint() -> None:
    context = Conversation.from_texts(["hi"])
    async with serving(sends(_WHOLE, "application/json")) as server:
        bot = server.bot(price_in=1e6, price_out=1e6)
        assert [piece async for piece in bot.stream(context)] == ["Hello there."]
    cost = bot.cost_take(context)
    assert (cost.cost, cost.is_estimated) == (5, False)


async def test_a_connection_that_breaks_after_the_end_breaks_no_reply() -> None:
    async def breaks(server: Server, send: Send) -> None:
        data = chunk("Hello there.", finish="stop")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"
        await send(head + data)

    assert await reply_to_hi(breaks) == "Hello there."


@pytest.mark.parametrize("then", [b": keep-alive\n\n", b"", b"data: {}\n\n"])
async def test_a_finish_reason_ends_the_reply_whatever_the_connection_does(
    then: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server sends heartbeats, or nothing, for as long as the connection is open."""
    monkeypatch.setattr(chat_completions, "_END_S", 0.02)
    case = json.loads((CASES / "stream_finish_then_heartbeats.json").read_text())

    async def goes_on(server: Server, send: Send) -> None:
        await send(SSE + b"\r\n" + case["body"].encode())
        while not server.let_go.is_set():
            await send(then)
            await asyncio.sleep(0.001)

    assert await reply_to_hi(goes_on) == "Hello there."


@pytest.mark.parametrize(
    "finish", ["error", "abort", "cancelled", "insufficient_system_resource", "network_error", "x"]
)
async def test_any_other_finish_reason_fails_the_reply(finish: str) -> None:
    with pytest.raises(BotError, match=rf"broke off after .*finish reason '{finish}'"):
        await reply_to_hi(says("Hello th", finish=finish))


@pytest.mark.parametrize("path", ["/v1/chat/completions", ""])
async def test_a_wrong_address_is_told_with_the_right_one(path: str) -> None:
    page = (
        b"HTTP/1.1 404 X\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html><h1>404</h1>nginx &amp; co</html>"
    )

    async def answer(server: Server, send: Send) -> None:
        await send(page)

    async with serving(answer) as server:
        url = f"http://127.0.0.1:{server.port}"
        with pytest.raises(BotError, match=rf"404 nginx & co\. .* base_url.*{url}/v1") as caught:
            await pieces(server.bot(retries=0, base_url=f"{url}{path}"), "hi")
    assert "<" not in str(caught.value)


# Fields that a model does not take.


def takes_no(*fields: str, body: dict[str, Any]) -> Answer:
    """Refuse requests with one of these fields, as the body says."""

    async def answer(server: Server, send: Send) -> None:
        request = server.requests[-1]
        rejected = next((field for field in fields if field in request), None)
        text = json.dumps(body).replace("FIELD", str(rejected)).encode()
        if rejected:
            await send(f"HTTP/1.1 400 X\r\nconnection: close\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text)
        elif request.get("stream"):
            await says("Hello there.")(server, send)
        else:
            await sends(_WHOLE, "application/json")(server, send)

    return answer


_REFUSALS = [
    {"error": {"message": "Unsupported parameter: 'FIELD' is not supported with this model.", "param": "FIELD"}},
    {"detail": [{"type": "extra_forbidden", "loc": ["body", "FIELD"], "msg": "Extra inputs are not permitted"}]},
    {"error": {"message": "`FIELD` is deprecated for this model."}},
]


@pytest.mark.parametrize("body", _REFUSALS)
@pytest.mark.parametrize(
    "fields", [("temperature",), ("seed",), ("top_p", "temperature"), ("max_tokens",), ("stream",)]
)
async def test_a_rejected_field_is_left_out_from_then_on(fields: tuple[str, ...], body: dict[str, Any]) -> None:
    async with serving(takes_no(*fields, body=body)) as server:
        bot = server.bot(retries=0, top_p=0.9)
        identity = bot.identity.key
        for n in range(2):
            context = Conversation.from_texts(["hi"], seed=n)
            assert "".join([piece async for piece in bot.stream(context)]) == "Hello there."
            cost = bot.cost_take(context)
            assert cost is not None
            assert cost.rejected_params == tuple(sorted(fields))
    assert len(server.requests) == len(fields) + 2, "each refusal is met once"
    assert bot.identity.key == identity
    if fields == ("max_tokens",):
        assert server.requests[-1]["max_completion_tokens"] == 200, "a reply keeps its longest length"


@pytest.mark.parametrize("name", ["temperature_deprecated", "temperature_only_default"])
async def test_the_cases_of_rejected_temperatures_get_their_reply(name: str) -> None:
    body = json.loads((CASES / f"http400_{name}.json").read_text())["body"]
    assert await reply_to_hi(takes_no("temperature", body=body)) == "Hello there."


async def test_an_endpoint_that_must_be_verified_to_stream_is_asked_without() -> None:
    message = "Your organization must be verified to stream this model."
    body = {"error": {"message": message, "param": "stream", "code": "unsupported_value"}}
    assert await reply_to_hi(takes_no("stream", body=body), price_in=1.0, price_out=1.0) == "Hello there."


async def test_a_value_out_of_range_is_told_and_not_dropped() -> None:
    body = {"error": {"message": "temperature must be between 0 and 1", "param": "temperature"}}
    with pytest.raises(BotError, match="between 0 and 1"):
        await reply_to_hi(takes_no("temperature", body=body))


async def test_null_in_the_options_leaves_a_field_out() -> None:
    async with serving(says("ok")) as server:
        await pieces(server.bot(temperature=None, max_new_tokens=None, send_seed=False), "hi")
    assert set(server.requests[0]) == {"model", "messages", "stream"}
    with pytest.raises(ValueError, match="max_new_tokens is null"):
        EndpointBot(name="e", model="m", max_new_tokens=None, max_cost=1.0, price_in=1.0, price_out=1.0)


# Content refusals.


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, json.loads((CASES / "http400_content_filter.json").read_text())["body"]),
        (400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}),
        (403, {"error": {"message": "Your chosen model requires moderation and your input was flagged"}}),
        (
            400,
            {"error": {"code": "data_inspection_failed", "message": "Input data may contain inappropriate content."}},
        ),
    ],
)
async def test_a_content_refusal_is_no_trouble_of_the_bot(status: int, body: dict[str, Any]) -> None:
    text = json.dumps(body).encode()

    async def answer(server: Server, send: Send) -> None:
        await send(f"HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text)

    async with serving(answer) as server:
        with pytest.raises(BotError, match="content filter refused") as caught:
            await pieces(server.bot(retries=2), "hi")
    assert (caught.value.is_content, caught.value.is_trouble) == (True, False)
    assert len(server.requests) == 1


async def test_a_filter_in_mid_reply_is_a_content_refusal_and_a_flagged_account_is_none() -> None:
    with pytest.raises(BotError, match="content filter ended the reply") as caught:
        await reply_to_hi(says("Hello th", finish="content_filter"))
    assert caught.value.is_content
    with pytest.raises(BotError, match="flagged") as caught:
        await reply_to_hi(fails(403, "your account was flagged for its usage policy violations"))
    assert not caught.value.is_content


_DETAILS = b'data: {"code": 503, "details": "no room"}\n\n'


@pytest.mark.parametrize(
    ("body", "kind", "words", "n_tries"),
    [
        ((CASES / "sse_error_detail.txt").read_bytes(), "", "context length is 4096 tokens", 1),
        ((CASES / "sse_error_event_plain.txt").read_bytes(), "", "upstream timed out", 2),
        ((CASES / "http200_json_error.json").read_bytes(), "", "Insufficient credits", 1),
        (b'[{"error": {"message": "quota"}}]', "application/json", "quota", 2),
        ((CASES / "sse_error_code_as_text.txt").read_bytes(), "", "model rejected this prompt", 1),
        ((CASES / "sse_choice_error.txt").read_bytes(), "", "Provider disconnected unexpectedly", 1),
        ((CASES / "sse_finish_error.txt").read_bytes(), "", "finish reason 'error', abort", 1),
        (b'data: {"error": {"message": "no quota", "code": "insufficient_quota"}}\n\n', "", "no quota", 1),
        (b'{"detail": "model is loading"}', "application/json", "model is loading", 2),
        (b'data: {"detail": "model is loading"}\n\n', "", "model is loading", 2),
        (_DETAILS, "", "no room", 2),
        (b'event: error\ndata: {"type": "overloaded"}\n\n', "", "overloaded", 2),
        (b'data: {"object": "error", "message": "bad", "code": 400}\n\n', "", "bad", 1),
    ],
)
async def test_the_endpoints_own_words_survive(
    body: bytes, kind: str, words: str, n_tries: int, waits: list[float]
) -> None:
    async with serving(sends(body, kind or EVENT_STREAM)) as server:
        with pytest.raises(BotError, match=words):
            await pieces(server.bot(retries=1), "hi")
    assert len(server.requests) == n_tries


# Thoughts and marks that reach no participant.


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize(
    "name",
    [
        "sse_im_start_leak",
        "sse_reasoning_tag",
        "sse_special_tokens",
        "sse_think_attr",
        "sse_thinking_tag",
        "sse_thought_gemma",
    ],
)
async def test_thoughts_and_template_marks_come_off(name: str, size: int) -> None:
    body = (CASES / f"{name}.txt").read_bytes()
    assert await reply_to_hi(sends(body, size=size)) == "Hello there."


async def test_a_reply_may_speak_of_thoughts() -> None:
    expected = "In HTML you may write `</think>` after a thought."
    body = (CASES / "sse_think_about.txt").read_bytes()
    assert await reply_to_hi(sends(body)) == expected
    assert await reply_to_hi(says(*expected)) == expected


async def test_blanks_are_held_back_so_that_the_call_can_be_repeated(waits: list[float]) -> None:
    blank = sends((CASES / "sse_only_ws.txt").read_bytes())
    with pytest.raises(BotError, match="sent no text"):
        await reply_to_hi(blank)
    async with serving(blank, says("\n", " Hello")) as server:
        assert await pieces(server.bot(retries=1), "hi") == ["Hello"]


async def test_further_marks_are_named_in_the_settings() -> None:
    marks = {"<plan>": "</plan>"}
    async with serving(says("<pl", "an>Greet.</pla", "n>Hello")) as server:
        bot = server.bot(thought_marks=marks)
        assert await pieces(bot, "hi", "<plan>Greet.</plan>Hello", "hi") == ["Hello"]
        assert bot.identity.key != server.bot().identity.key
    assert server.requests[0]["messages"][1] == {"role": "assistant", "content": "Hello"}


# Templates that want the roles in turn.


def alternating(*, system: bool) -> Answer:
    """Answer as a template of Gemma or Mistral does: the user begins, roles alternate, the user is last."""

    async def answer(server: Server, send: Send) -> None:
        roles = [message["role"] for message in server.requests[-1]["messages"]]
        turns = roles[1:] if roles[0] == "system" else roles
        in_turn = [("user", "assistant")[i % 2] for i in range(len(turns))]
        if turns != roles and not system:
            await fails(400, "System role not supported")(server, send)
        elif turns != in_turn or turns[-1] != "user":
            await fails(400, "Conversation roles must alternate user/assistant/user")(server, send)
        else:
            await says("ok")(server, send)

    return answer


@pytest.mark.parametrize("window", range(6))
@pytest.mark.parametrize("first", ["human", "bot"])
async def test_the_users_message_is_first_and_roles_alternate(first: str, window: int) -> None:
    speakers = ["human", "bot"] if first == "human" else ["bot", "human"]
    async with serving(alternating(system=True)) as server:
        for system_prompt in ("", "Be kind."):
            bot = server.bot(window=window, system_prompt=system_prompt, retries=0)
            for n in range(8):
                context = Conversation("c")
                for i in range(n):
                    context = context.with_turn(speakers[i % 2], f"text {i}")
                assert [piece async for piece in bot.stream(context)] == ["ok"]
                if n:
                    assert f"text {n - 1}" in server.requests[-1]["messages"][-1]["content"]


async def test_the_cases_of_roles_get_their_replies() -> None:
    for name in ("roles_bot_opens", "roles_no_system"):
        case = json.loads((CASES / f"{name}.json").read_text())
        context = Conversation("c")
        for speaker, text in case["turns"]:
            context = context.with_turn(speaker, text)
        async with serving(alternating(system=name == "roles_bot_opens")) as server:
            bot = server.bot(**case["options"], retries=0)
            assert [piece async for piece in bot.stream(context)] == ["ok"]


async def test_a_template_without_a_system_role_gets_the_prompt_from_the_user() -> None:
    async with serving(alternating(system=False)) as server:
        bot = server.bot(system_prompt="Be kind.", retries=0)
        for _ in range(2):
            assert await pieces(bot, "hi") == ["ok"]
    assert [request["messages"][-1]["content"] for request in server.requests] == [
        "hi",
        "Be kind.\n\nhi",
        "Be kind.\n\nhi",
    ], "the refusal is met once"


# Hostile servers.


@pytest.mark.parametrize(
    "data",
    [
        b"data: nonsense\n\n",
        b"data: [1]\n\n",
        b'data: {"error": {"message": "overloaded"}}\n\n',
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"data: " + b"x" * 2_000_000,
        b"\xff\xfe\n\n",
    ],
)
async def test_a_stream_of_something_else_is_an_error(data: bytes) -> None:
    async def answer(server: Server, send: Send) -> None:
        await send(SSE + b"\r\n" + data)

    async with serving(answer) as server:
        with pytest.raises(BotError, match="gave no reply") as caught:
            await pieces(server.bot(retries=0), "hi")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "choice",
    [
        b'{"choices": null}', b'{"choices": [null]}', b'{"choices": [{"delta": 3}]}',
        b'{"choices": [{"delta": {"content": ["a"]}}]}', b'{"usage": {"prompt_tokens": "many"}}',
    ],
)  # fmt: skip
async def test_odd_chunks_are_passed_over(choice: bytes) -> None:
    async def answer(server: Server, send: Send) -> None:
        await send(SSE + b"\r\ndata: " + choice + b"\n\n" + chunk("ok") + chunk(finish="stop"))

    async with serving(answer) as server:
        assert await pieces(server.bot(price_in=1.0, price_out=1.0), "hi") == ["ok"]


async def test_a_page_in_place_of_a_stream_says_so() -> None:
    async def page(server: Server, send: Send) -> None:
        await send(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi")

    async with serving(page) as server:
        with pytest.raises(BotError, match=r"a page instead of an event stream .text/html"):
            await pieces(server.bot(retries=0), "hi")


# Networks.


@pytest.mark.parametrize(
    "ip",
    [
        *("127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "::1", "::ffff:10.0.0.1", "fe80::1%1"),
        *("168.63.129.16", "192.0.0.192", "64:ff9b::a9fe:a9fe", "64:ff9b::168.63.129.16", "64:ff9b::127.0.0.1"),
        *("64:ff9b:1::8.8.8.8", "::127.0.0.1", "::8.8.8.8", "::ffff:168.63.129.16", "::ffff:0:8.8.8.8", "fec0::1"),
        *("2002:a83f:8110::1", "2002:7f00:1::1"),
    ],
)
def test_addresses_that_are_not_public(ip: str) -> None:
    assert not addresses.is_public(ip)
    assert addresses.is_public("93.184.215.14")
    assert addresses.is_public("64:ff9b::93.184.215.14"), "NAT64 of a network that has IPv6 alone"
    assert addresses.is_public("2606:2800:21f:cb07:6820:80da:af6b:8b2c")


async def test_a_bot_of_public_networks_connects_to_no_other_by_whatever_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(says("hello")) as server:
        bot = server.bot(retries=0)
        bot.unload()
        bot.public_only = True
        with pytest.raises(BotError, match="private network"):
            await pieces(bot, "hi")
        # A name that led to a public address when it was looked up first.
        monkeypatch.setattr("chatbots.bots.endpoint.refusal", lambda url, **_: "")
        with pytest.raises(BotError, match="private network"):
            await pieces(bot, "hi")
        assert not server.requests
        assert await pieces(server.bot(), "hi"), "another bot of that address is free to"


@pytest.mark.parametrize(
    ("status", "wait_s", "code", "passes"),
    [
        (429, "", "rate_limit", True),
        (429, "120", "rate_limit", True),
        (429, "121", "rate_limit", False),  # longer than a reply waits
        (429, "", "insufficient_quota", False),
        (503, "", "insufficient_quota", True),
        (503, "121", "", False),
        (400, "", "", False),
    ],
)
def test_what_lasts_is_not_tried_again(status: int, wait_s: str, code: str, passes: bool) -> None:
    headers = {"retry-after": wait_s} if wait_s else {}
    content = json.dumps({"error": {"message": "no", "code": code}}).encode()
    assert read_refusal(status, headers, content, "https://example.org/v1").passes is passes
