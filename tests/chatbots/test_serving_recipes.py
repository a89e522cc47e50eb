"""Entries of docs/guide/serving.md against llama.cpp's server and the protocols of vLLM, TGI and Ollama."""

import asyncio
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from chatbots import Conversation
from chatbots.bots.base import BotError
from chatbots.bots.endpoint import EndpointBot
from chatbots.yaml_registry import configured_bots
from tests.chatbots.endpoint_server import SSE, Answer, Send, Server, chunk, fails, pieces, says, serving
from tests.documents import blocks_tested
from tests.tiny_gguf import save_gguf

pytestmark = pytest.mark.usefixtures("meter")

TESTED_BY = (
    "tests/chatbots/test_serving_recipes.py::test_every_entry_of_the_page_is_a_bot",
    "tests/chatbots/test_serving_recipes.py::test_llama_cpps_own_server",
    "tests/chatbots/test_serving_recipes.py::test_vllm_by_its_protocol",
    "tests/chatbots/test_serving_recipes.py::test_tgi_by_its_protocol",
    "tests/chatbots/test_serving_recipes.py::test_ollama_by_its_protocol",
)
ENTRIES = [entry for test in TESTED_BY for block in blocks_tested(test) for entry in yaml.safe_load(block.text)]
LONG_ADVICE = "Lower `window` in bots.yaml to send fewer turns"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_KEY", "local-key-of-vllm")


def bot_of(name: str, port: int, **changes: Any) -> EndpointBot:
    """Make the bot of the page's entry, at another address."""
    [entry] = [entry for entry in ENTRIES if entry["id"] == name]
    params = {**entry["params"], "base_url": f"http://127.0.0.1:{port}/v1", **changes}
    bot = EndpointBot(name=name, **params)
    bot.load("cpu")
    return bot


def refuses(status: int, body: dict[str, Any]) -> Answer:
    async def answer(server: Server, send: Send) -> None:
        content = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        await send(head.encode() + content)

    return answer


def test_every_entry_of_the_page_is_a_bot(tmp_path: Path) -> None:
    file = tmp_path / "bots.yaml"
    file.write_text(yaml.safe_dump(ENTRIES))
    bots = configured_bots.load(file)  # a mistake in any raises
    assert [bot.name for bot in bots] == [entry["id"] for entry in ENTRIES]
    assert len(bots) == 5


# llama.cpp's own server.


@pytest.fixture(scope="module")
def llama_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp (requirements-demo.txt) is not installed")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(save_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf"))
    params.n_parallel, params.n_ctx = 2, 512
    params.offline, params.ui, params.fit_params, params.verbosity = True, False, False, -1
    params.kv_unified = False
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads, threads.poll = 1, 0
    params.hostnames, params.port = ["127.0.0.1"], 0
    server = xllamacpp.Server(params)
    yield int(server.listening_address.rpartition(":")[2])
    del server


async def test_llama_cpps_own_server(llama_port: int) -> None:
    bot = bot_of("llama-server", llama_port, max_new_tokens=12, temperature=0)
    context = Conversation.from_texts(["hello", "hi", "and you"], id="1", seed=3)
    first = [piece async for piece in bot.stream(context)]
    assert len(first) > 1, "it streams"
    others = [Conversation.from_texts([text], id=text) for text in ("a", "b", "c")]

    async def asked(one: Conversation) -> str:
        return "".join([piece async for piece in bot.stream(one)])

    assert all(await asyncio.gather(*map(asked, others))), "more than it has places for"
    with pytest.raises(BotError) as refused:
        await asked(Conversation.from_texts(["hello " * 300]))
    assert "tried once" in str(refused.value)
    assert "HTTP 400, the conversation is too long for it: request (" in str(refused.value)
    assert LONG_ADVICE in str(refused.value)
    turns = ["hello " * 20] * 31
    with pytest.raises(BotError, match="too long"):
        await asked(Conversation.from_texts(turns))
    windowed = bot_of("llama-server", llama_port, max_new_tokens=12, window=1)
    context = Conversation.from_texts(turns)
    assert "".join([piece async for piece in windowed.stream(context)])


async def test_llama_cpp_that_is_still_loading_is_asked_again() -> None:
    loading = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}

    async with serving(refuses(503, loading), says("ok")) as server:
        assert await pieces(bot_of("llama-server", server.port), "hi") == ["ok"]
    assert len(server.requests) == 2
    assert server.requests[0]["cache_prompt"] is True


# Protocols.


async def test_vllm_by_its_protocol() -> None:
    too_long = (
        "This model's maximum context length is 8192 tokens. However, you requested 8300 tokens (8100 in the "
        "messages, 200 in the completion). Please reduce the length of the messages or completion."
    )

    async def streams(server: Server, send: Send) -> None:
        await send(SSE + b"\r\n" + chunk(""))  # the role comes first, with no text
        await send(b": ping\n\n" + chunk("Hello ") + chunk("there.") + chunk("", "stop"))
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        body = {"object": "chat.completion.chunk", "choices": [], "usage": usage}
        await send(b"data: " + json.dumps(body).encode() + b"\n\ndata: [DONE]\n\n")

    shapes = [
        {"error": {"message": too_long, "type": "BadRequestError", "param": None, "code": 400}},
        {"object": "error", "message": too_long, "type": "BadRequestError", "code": 400},
    ]
    unknown = {"error": {"message": "The model `x` does not exist.", "type": "NotFoundError"}}
    answers = (streams, *(refuses(400, shape) for shape in shapes), refuses(404, unknown))
    async with serving(*answers) as server:
        bot = bot_of("qwen-vllm", server.port)
        assert "".join(await pieces(bot, "hi")) == "Hello there."
        for _ in shapes:
            with pytest.raises(BotError) as refused:
                await pieces(bot, "hi")
            assert "tried once" in str(refused.value)
            assert LONG_ADVICE in str(refused.value)
        with pytest.raises(BotError, match="not found: The model `x` does not exist"):
            await pieces(bot, "hi")
    assert len(server.requests) == 4, "none of these is asked twice"
    assert server.headers[0]["authorization"] == "bearer local-key-of-vllm"
    assert server.requests[0]["model"] == "Qwen/Qwen2.5-7B-Instruct"
    assert server.requests[0]["repetition_penalty"] == 1.05


async def test_tgi_by_its_protocol() -> None:
    too_long = {
        "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 8100 `inputs` "
        "tokens and 200 `max_new_tokens`",
        "error_type": "validation",
    }
    overloaded = {"error": "Model is overloaded", "error_type": "overloaded"}

    async def fails_within(server: Server, send: Send) -> None:
        await send(SSE + b"\r\ndata: " + json.dumps(too_long).encode() + b"\n\n")

    answers = (refuses(429, overloaded), says("Hello", "."), refuses(422, too_long), fails_within)
    async with serving(*answers) as server:
        bot = bot_of("qwen-tgi", server.port)
        assert "".join(await pieces(bot, "hi")) == "Hello."
        assert len(server.requests) == 2, "one that is overloaded is asked again"
        for _ in range(2):
            with pytest.raises(BotError) as refused:
                await pieces(bot, "hi")
            assert "tried once" in str(refused.value)
            assert LONG_ADVICE in str(refused.value)
    assert len(server.requests) == 4
    assert server.requests[0]["model"] == "tgi"
    assert 0 < server.requests[0]["top_p"] < 1


async def test_ollama_by_its_protocol() -> None:
    missing = {
        "error": {
            "message": 'model "llama3.2" not found, try pulling it first',
            "type": "api_error",
            "param": None,
            "code": None,
        }
    }
    loaded = asyncio.Event()

    async def loads_first(server: Server, send: Send) -> None:
        await loaded.wait()
        await says("Hel", "lo.")(server, send)

    async with serving(loads_first, loads_first, refuses(404, missing), fails(500)) as server:
        hasty = bot_of("llama-ollama", server.port, read_timeout_s=0.05, retries=0)
        with pytest.raises(BotError, match="no answer within the time-out"):
            await pieces(hasty, "hi")
        patient = bot_of("llama-ollama", server.port, retries=0)
        waiting = asyncio.create_task(pieces(patient, "hi"))
        await asyncio.sleep(0.1)
        assert not waiting.done(), "it waits for the model to be loaded"
        loaded.set()
        assert "".join(await waiting) == "Hello."
        with pytest.raises(BotError, match=r"not found.*try pulling it first"):
            await pieces(patient, "hi")
        with pytest.raises(BotError, match="HTTP 500"):
            await pieces(patient, "hi")
    assert server.requests[1]["model"] == "llama3.2"
    assert patient.options.read_timeout_s == 120


async def test_what_is_refused_for_other_reasons_gets_no_advice_about_length() -> None:
    body = {"error": {"message": "top_p must be below 1", "type": "BadRequestError"}}
    async with serving(refuses(400, body)) as server:
        with pytest.raises(BotError) as refused:
            await pieces(bot_of("qwen-tgi", server.port), "hi")
    assert "HTTP 400, an error: top_p must be below 1" in str(refused.value)
    assert LONG_ADVICE not in str(refused.value)
