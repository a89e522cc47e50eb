"""200 streamed replies at once from one endpoint: `python -m tests.benchmarks.bench_endpoint [--json]`.

A small server in a process of its own sends each reply in 60 chunks, twenty a second, as hosted models
do. Printed is what a chunk costs this process: of an `EndpointBot`, against the bare client that it is
built on (lines of server-sent events, each read as JSON) and, where the package `openai` is installed, against
its client. The least of several rounds is taken, since other work on the machine only adds.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import json
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

from chatbots import Conversation
from chatbots.bots.endpoint import EndpointBot
from chatbots.endpoints.metering import MemoryMeter, meter_set
from tests.chatbots.endpoint_server import chunk

N_STREAMS, N_CHUNKS, PER_S = 200, 60, 20
MESSAGES = [{"role": "user", "content": "Hello, how are you?"}]
One = Callable[[], Awaitable[int]]


async def _handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection, which is used again and again."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
            length = next(line for line in head if line.startswith("content-length:"))
            await reader.readexactly(int(length.split(":")[1]))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            ends = [chunk(finish="stop") + b"data: [DONE]\n\n"]
            for data in [chunk(f" word{i}") for i in range(N_CHUNKS)] + ends:
                writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                await writer.drain()
                await asyncio.sleep(1 / PER_S)
            writer.write(b"0\r\n\r\n")
    writer.close()


def _serve(port_to: Connection) -> None:
    async def run() -> None:
        listening = await asyncio.start_server(_handle, "127.0.0.1", 0, backlog=1000)
        port_to.send(listening.sockets[0].getsockname()[1])
        await listening.serve_forever()

    asyncio.run(run())


def of_bot(base_url: str) -> One:
    """Make a call of the bot, as a study's chats use it."""
    bot = EndpointBot(name="e", model="m", base_url=base_url, concurrency=N_STREAMS)
    bot.load("cpu")
    context = Conversation.from_texts([MESSAGES[0]["content"]])

    async def one() -> int:
        return len([piece async for piece in bot.stream(context)])

    return one


def of_client(base_url: str) -> One:
    """Make a call of the HTTP client alone."""
    import httpx2

    client = httpx2.AsyncClient(limits=httpx2.Limits(max_connections=None), timeout=60)
    body = {"model": "m", "messages": MESSAGES, "stream": True}

    async def one() -> int:
        n = 0
        async with client.stream("POST", f"{base_url}/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    n += bool(json.loads(line[6:])["choices"][0]["delta"].get("content"))
        return n

    return one


def of_openai(base_url: str) -> One:
    """Make a call of the client library of the API's inventors."""
    import openai

    client = openai.AsyncOpenAI(api_key="none", base_url=base_url)

    async def one() -> int:
        chunks = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        return sum([bool(c.choices[0].delta.content) async for c in chunks])

    return one


async def measure(ones: dict[str, One], n_rounds: int) -> dict[str, float]:
    """Measure each one's milliseconds of CPU per chunk; they take turns, so that a busy minute hits all alike."""
    least: dict[str, float] = {}
    for n_round in range(n_rounds + 1):
        for name, one in ones.items():
            began = time.process_time()
            pieces = await asyncio.gather(*(one() for _ in range(N_STREAMS)))
            cost = 1000 * (time.process_time() - began) / (N_STREAMS * N_CHUNKS)
            assert pieces == [N_CHUNKS] * N_STREAMS, f"{name} lost pieces"
            if n_round:  # the first opens the connections
                least[name] = min(cost, least.get(name, cost))
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    meter_set(MemoryMeter())
    port_from, port_to = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(port_to,), daemon=True)
    server.start()
    base_url = f"http://127.0.0.1:{port_from.recv()}/v1"
    ones = {"bot": of_bot(base_url), "client": of_client(base_url)}
    if importlib.util.find_spec("openai") is not None:
        ones["openai"] = of_openai(base_url)
    try:
        result = asyncio.run(measure(ones, options.rounds))
    finally:
        server.terminate()
    if options.json:
        print(json.dumps(result))
        return
    print(f"{N_STREAMS} streams at once, CPU per chunk: {result['bot']:.3f} ms, of which the bare client takes "
          f"{result['client']:.3f}; ratio {result['bot'] / result['client']:.2f}")  # fmt: skip
    if "openai" in result:
        ratio = result["openai"] / result["bot"]
        print(f"the openai library: {result['openai']:.3f} ms a chunk, {ratio:.2f} times the bot's")


if __name__ == "__main__":
    main()
