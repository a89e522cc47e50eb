"""The endpoint bot: requests, pieces, tries, keys and costs."""

import asyncio
import json
import socket
from dataclasses import replace
from typing import Any

import pytest

from chatbots import Conversation, Turn
from chatbots.bots.base import BotError
from chatbots.bots.endpoint import EndpointBot
from chatbots.endpoints.metering import MemoryMeter, PaidBot, ReplyCost
from chatbots.serving import reply
from tests.chatbots.endpoint_server import SSE, Send, Server, chunk, counts, fails, hangs, pieces, says, serving

KEY = "sk-test-abcdefgh12345678"


pytestmark = pytest.mark.usefixtures("meter")


async def test_pieces_arrive_as_the_server_sends_them() -> None:
    async def two_halves(server: Server, send: Send) -> None:
        await send(SSE + b"\r\n" + chunk("Hel"))
        await server.let_go.wait()
        await send(chunk("lo") + chunk(finish="stop") + b"data: [DONE]\n\n")

    async with serving(two_halves) as server:
        stream = server.bot().stream(Conversation.from_texts(["hi"]))
        assert await anext(stream) == "Hel"
        server.let_go.set()
        assert [piece async for piece in stream] == ["lo"]


async def test_a_reply_at_its_longest_ends_with_its_last_whole_sentence() -> None:
    for finish, said in (("length", "Yes. I do!"), ("stop", "Yes. I do! But the")):
        async with serving(says("Ye", "s. I d", "o! Bu", "t the", finish=finish)) as server:
            stream = server.bot().stream(Conversation.from_texts(["hi"]))
            assert "".join([piece async for piece in stream]) == said


async def test_the_request_holds_prompt_window_settings_and_seed() -> None:
    async with serving(says("ok")) as server:
        bot = server.bot(system_prompt="Be brief.", window=3, temperature=0, max_new_tokens=9)
        context = Conversation.from_texts(["one", "two", "three", "four", "five"], seed=4)
        assert "".join([piece async for piece in bot.stream(context)]) == "ok"
    (request,) = server.requests
    assert request["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "three"},
        {"role": "assistant", "content": "four"},
        {"role": "user", "content": "five"},
    ]
    assert request["model"] == "m"
    assert request["temperature"] == 0
    assert request["max_tokens"] == 9
    assert request["stream"] is True
    assert request["seed"] == context.reply_seed % 2**31


@pytest.mark.parametrize(
    ("system_prompt", "expected"),
    [
        ("Be brief. {condition} Be kind.", "Be brief. You sell tea. Be kind."),
        ("Be brief.", "Be brief.\n\nYou sell tea."),
    ],
)
async def test_the_prompt_of_a_condition_stands_at_its_place(system_prompt: str, expected: str) -> None:
    plain = Conversation.from_texts(["Welcome!", "hi"], first="bot")
    async with serving(says("ok")) as server:
        bot = server.bot(system_prompt=system_prompt)
        for context in (replace(plain, bot_prompt="You sell tea.", is_opened=True), plain):
            assert "".join([piece async for piece in bot.stream(context)]) == "ok"
    told, untold = (request["messages"] for request in server.requests)
    assert told == [
        {"role": "system", "content": expected},
        {"role": "user", "content": bot.options.opening_prompt},
        {"role": "assistant", "content": "Welcome!"},
        {"role": "user", "content": "hi"},
    ]
    assert "{condition}" not in untold[0]["content"]
    assert untold[1:] == [{"role": "user", "content": "hi"}]


async def test_images_go_with_their_message_as_parts() -> None:
    red, blue = "data:image/jpeg;base64,cmVk", "data:image/jpeg;base64,Ymx1ZQ=="
    turns = (
        Turn("human", "", image=red),
        Turn("bot", "ok"),
        Turn("human", "And this?", image=blue),
        Turn("human", "?"),
    )
    context = Conversation("c", turns)
    async with serving(says("ok")) as server:
        bot = server.bot(takes_images=True, system_prompt="Be brief.", price_in=1, price_out=0)
        assert [piece async for piece in bot.stream(context)] == ["ok"]
        short = server.bot(takes_images=True, window=1)
        assert [piece async for piece in short.stream(context)] == ["ok"]
    assert server.requests[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": red}}]},
        {"role": "assistant", "content": "ok"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And this?"},
                {"type": "image_url", "image_url": {"url": blue}},
                {"type": "text", "text": "?"},
            ],
        },
    ]
    assert server.requests[1]["messages"] == [{"role": "user", "content": "?"}]
    cost = bot.cost_take(context)
    assert cost is not None
    assert cost.tokens_in > 2 * 1_000  # estimated with the images
    assert bot.least_bound.tokens_in < cost.tokens_in


def test_bots_of_before_stay_the_same_where_they_take_no_images() -> None:
    plain, seeing = (
        EndpointBot(name="e", model="m", **options) for options in ({"takes_images": False}, {"takes_images": True})
    )
    assert plain.identity == EndpointBot(name="e", model="m").identity
    assert "takes_images" not in plain.params
    assert seeing.identity != plain.identity
    assert (plain.takes_images, seeing.takes_images) == (False, True)


async def test_a_speakers_run_is_one_message_and_an_empty_conversation_is_opened() -> None:
    async with serving(says("ok")) as server:
        bot = server.bot(opening_prompt="Begin.", send_seed=False, max_tokens_field="max_completion_tokens")
        run = Conversation("c").with_turn("human", "a").with_turn("human", "b")
        for context in (run, Conversation("d")):
            assert [piece async for piece in bot.stream(context)] == ["ok"]
    assert server.requests[0]["messages"] == [{"role": "user", "content": "a\nb"}]
    assert server.requests[1]["messages"] == [{"role": "user", "content": "Begin."}]
    assert "seed" not in server.requests[0]
    assert "max_tokens" not in server.requests[0]
    assert server.requests[0]["max_completion_tokens"] == 200


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_failure_is_tried_again(status: int) -> None:
    async with serving(fails(status), says("fine")) as server:
        assert await pieces(server.bot(), "hi") == ["fine"]
    assert len(server.requests) == 2


async def test_tries_are_bounded() -> None:
    async with serving(fails(503, "overloaded")) as server:
        with pytest.raises(BotError, match=r"tried 3 times.*HTTP 503.*overloaded"):
            await pieces(server.bot(retries=2), "hi")
    assert len(server.requests) == 3


async def test_a_bad_key_is_not_tried_again_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TEST_KEY", KEY)
    async with serving(fails(401, f"Incorrect API key provided: {KEY}")) as server:
        with pytest.raises(BotError, match="the key was refused") as caught:
            await pieces(server.bot(api_key_env="MY_TEST_KEY"), "hi")
    assert len(server.requests) == 1
    assert server.headers[0]["authorization"] == f"bearer {KEY}"
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "the library's message would show the key in a traceback"


async def test_a_server_that_never_answers_times_out() -> None:
    async with serving(hangs) as server:
        with pytest.raises(BotError, match="time-out"):
            await pieces(server.bot(read_timeout_s=0.1, retries=0), "hi")
    assert len(server.requests) == 1


async def test_a_server_that_stops_in_the_middle_times_out_and_is_not_asked_again() -> None:
    async def stops(server: Server, send: Send) -> None:
        await send(SSE + b"\r\n" + chunk("Hello"))
        await server.let_go.wait()

    async with serving(stops) as server:
        with pytest.raises(BotError, match="broke off after 5 characters"):
            await pieces(server.bot(read_timeout_s=0.1), "hi")
    assert len(server.requests) == 1


async def test_a_broken_stream_is_an_error_and_not_a_short_reply() -> None:
    async def breaks(server: Server, send: Send) -> None:
        data = chunk("Hello")
        await send(SSE + b"transfer-encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n" % (len(data), data))

    for answer in (breaks, says("Hello", finish=None)):
        async with serving(answer, says("another")) as server:
            with pytest.raises(BotError, match="broke off after 5 characters"):
                await pieces(server.bot(), "hi")
        assert len(server.requests) == 1


async def test_nobody_listening_says_so() -> None:
    async with serving(says("x")) as server:
        bot = server.bot(retries=0)
    with pytest.raises(BotError, match="no connection"):
        await pieces(bot, "hi")


async def test_no_text_at_all_is_an_error() -> None:
    async with serving(says(finish="content_filter")) as server:
        with pytest.raises(BotError, match="content_filter"):
            await pieces(server.bot(retries=0), "hi")


async def test_tokens_and_cost_of_each_reply_are_told_once(meter: MemoryMeter) -> None:
    async with serving(counts(1000, 500, "ok")) as server:
        bot = server.bot(price_in=2, price_out=10.0)
        assert isinstance(bot, PaidBot)
        contexts = [Conversation.from_texts(["hi"], id=name) for name in ("a", "b")]
        for context in contexts:
            assert [piece async for piece in bot.stream(context)] == ["ok"]
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    each = (1000 * 2 + 500 * 10) / 1e6
    assert bot.cost_take(contexts[1]) == ReplyCost(1000, 500, pytest.approx(each))
    assert bot.cost_take(contexts[1]) is None
    assert bot.cost_take(contexts[0]) == ReplyCost(1000, 500, pytest.approx(each))
    assert meter.spent == {"e": pytest.approx(2 * each)}


async def test_tokens_that_are_not_counted_are_estimated_and_marked(meter: MemoryMeter) -> None:
    context = Conversation.from_texts(["é" * 10])  # 20 bytes
    async with serving(says("12345678", "9")) as server:
        priced, unpriced = server.bot(price_in=4, price_out=8), server.bot(price_in=4)
        for bot in (priced, unpriced):
            assert len([piece async for piece in bot.stream(context)]) == 2
    assert priced.cost_take(context) == ReplyCost(5, 3, pytest.approx((5 * 4 + 3 * 8) / 1e6), True)
    assert unpriced.cost_take(context) == ReplyCost(5, 3, None, True)


async def test_a_cap_is_looked_at_before_the_call(meter: MemoryMeter) -> None:
    async with serving(counts(10, 10, "ok")) as server:
        bot = server.bot(price_in=0, price_out=1e6, max_new_tokens=20, max_cost=35)
        assert bot.least_bound.cost == 20
        await pieces(bot, "one")  # 10 of 35, though up to 20 could have gone
        await pieces(bot, "two")
        with pytest.raises(BotError, match=r"limit of 35 is reached: 20 is spent.*may cost 20"):
            await pieces(bot, "three")
    assert len(server.requests) == 2
    assert meter.spent == {"e": 20}
    assert "max_cost" not in bot.params


async def test_calls_under_way_count_with_the_most_they_can_cost() -> None:
    async def waits(server: Server, send: Send) -> None:
        await server.let_go.wait()
        await counts(1, 1, "ok")(server, send)

    async with serving(waits) as server:
        bot = server.bot(price_in=0, price_out=1e6, max_new_tokens=10, max_cost=25)
        under_way = [asyncio.ensure_future(pieces(bot, str(i))) for i in range(2)]
        while len(server.requests) < 2:
            await asyncio.sleep(0)
        with pytest.raises(BotError, match="limit of 25 is reached"):
            await pieces(bot, "too many")
        server.let_go.set()
        await asyncio.gather(*under_way)
        assert await pieces(bot, "now there is room") == ["ok"]


async def test_failed_tries_cost_what_they_can_have_cost(meter: MemoryMeter) -> None:
    settings: dict[str, Any] = {"price_in": 1e6, "price_out": 1e6, "retries": 0}
    async with serving(fails(401)) as server:
        with pytest.raises(BotError):
            await pieces(server.bot(**settings), "four")
    assert meter.spent == {"e": 0}, "a refused call is free"
    async with serving(says("12345", finish=None)) as server:
        with pytest.raises(BotError, match="broke off"):
            await pieces(server.bot(**settings), "four")
    assert meter.spent == {"e": 1 + 2}
    async with serving(says("12345")) as server:
        stream = server.bot(**settings).stream(Conversation.from_texts(["four"]))
        assert await anext(stream) == "12345"
        await stream.aclose()  # the participant has gone
    assert meter.spent == {"e": 6}


async def test_the_host_streams_it_to_many_conversations_at_once() -> None:
    waiting = 0

    async def all_at_once(server: Server, send: Send) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 5:
            server.let_go.set()
        await server.let_go.wait()
        await says("to", "gether")(server, send)

    async with serving(all_at_once) as server:
        bot = server.bot()
        replies = await asyncio.to_thread(reply, bot, [Conversation.from_texts([str(i)]) for i in range(5)])
    assert [r.text for r in replies] == ["together"] * 5


async def test_one_bot_serves_several_event_loops() -> None:
    async with serving(says("ok")) as server:
        bot = server.bot()
        for _ in range(2):
            (answer,) = await asyncio.to_thread(reply, bot, [Conversation.from_texts(["hi"])])
            assert answer.text == "ok"
        assert await pieces(bot, "hi") == ["ok"]


def test_a_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_TEST_KEY", raising=False)
    bot = EndpointBot(name="e", model="m", api_key_env="MY_TEST_KEY")
    assert "MY_TEST_KEY" in str(bot.unavailable_reason())
    with pytest.raises(BotError, match="MY_TEST_KEY"):
        bot.load("cpu")
    monkeypatch.setenv("MY_TEST_KEY", KEY)
    assert bot.unavailable_reason() is None
    assert KEY not in repr(bot)
    assert KEY not in json.dumps(bot.identity.as_dict())


def test_a_server_that_refuses_connections_loads_no_bot() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # a port at which nobody listens
        address = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        bot = EndpointBot(name="e", model="m", base_url=address)
        with pytest.raises(BotError, match="cannot be reached"):
            bot.load("cpu")
        held.listen()
        bot.load("cpu")


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="name of an environment variable") as caught:
        EndpointBot(name="e", model="m", api_key_env=KEY)
    assert KEY not in str(caught.value)
    for params in (
        {"base_url": "localhost"},
        {"retries": -1},
        {"window": -1},
        {"max_new_tokens": 0},
        {"price_in": -1.0},
        {"price_out": 1.0, "price_in": 1.0, "max_cost": -1.0},
    ):
        with pytest.raises(ValueError, match=list(params)[-1]):
            EndpointBot(name="e", model="m", **params)  # type: ignore[arg-type]


def test_a_cap_without_prices_says_what_to_add() -> None:
    with pytest.raises(ValueError, match="set price_out to the price of a million tokens"):
        EndpointBot(name="e", model="m", price_in=1.0, max_cost=5.0)
    with pytest.raises(ValueError, match="set price_in"):
        EndpointBot(name="e", model="m", max_cost=5.0)
