"""A small server on this machine that speaks HTTP and server-sent events, for tests and the benchmark."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from chatbots import Conversation
from chatbots.bots.endpoint import EndpointBot

Send = Callable[[bytes], Awaitable[None]]
Answer = Callable[["Server", Send], Awaitable[None]]


def chunk(text: str | None = None, finish: str | None = None) -> bytes:
    """Return one server-sent event of a chat completion."""
    delta = {} if text is None else {"role": "assistant", "content": text}
    body = {
        "id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }  # fmt: skip
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@dataclass
class Server:
    """Answers the n-th request with the n-th of `answers` (the last one again and again)."""

    answers: list[Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = 0
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
            body = await reader.readexactly(int(headers["content-length"]))
            self.headers.append(headers)
            self.requests.append(json.loads(body))
            answer = self.answers[min(len(self.requests), len(self.answers)) - 1]

            async def send(data: bytes) -> None:
                writer.write(data)
                await writer.drain()

            await answer(self, send)
        writer.close()

    def bot(self, **params: Any) -> EndpointBot:
        settings = {"name": "e", "model": "m", "base_url": f"http://127.0.0.1:{self.port}/v1"}
        bot = EndpointBot(**{**settings, **params})
        bot.load("cpu")
        return bot


@contextlib.asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[Server]:
    server = Server(list(answers))
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.let_go.set()
        listening.close()


SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"


def says(*pieces: str, finish: str | None = "stop") -> Answer:
    async def answer(server: Server, send: Send) -> None:
        await send(SSE + b"\r\n")
        for piece in pieces:
            await send(chunk(piece))
        if finish:
            await send(chunk(finish=finish) + b"data: [DONE]\n\n")

    return answer


def fails(status: int, message: str = "no", headers: str = "", retry_after: int | None = 0) -> Answer:
    async def answer(server: Server, send: Send) -> None:
        body = json.dumps({"error": {"message": message}}).encode()
        wait = "" if retry_after is None else f"retry-after: {retry_after}\r\n"
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{wait}connection: close\r\n{headers}"
        await send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    return answer


async def hangs(server: Server, send: Send) -> None:
    await server.let_go.wait()


def counts(tokens_in: int, tokens_out: int, *pieces: str) -> Answer:
    """Make a reply whose tokens the server counts in a chunk of its own, as OpenAI's does."""
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}

    async def answer(server: Server, send: Send) -> None:
        await says(*pieces, finish=None)(server, send)
        body = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m",
                "choices": [], "usage": {**usage, "total_tokens": tokens_in + tokens_out}}  # fmt: skip
        await send(chunk(finish="stop"))
        await send(b"data: " + json.dumps(body).encode() + b"\n\ndata: [DONE]\n\n")

    return answer


async def pieces(bot: EndpointBot, *texts: str, seed: int = 0) -> list[str]:
    return [piece async for piece in bot.stream(Conversation.from_texts(texts, seed=seed))]
