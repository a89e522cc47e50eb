"""Firefox for Playwright: passes WebDriver BiDi on, and accepts emulation that an older Firefox does not know.

Playwright always sends `emulation.setMediaFeaturesOverride`, which Firefox ESR rejects as an unknown command. Start it
in place of Firefox, with its arguments: `python firefox_bridge.py /usr/bin/firefox-esr --remote-debugging-port=0 …`
"""

import asyncio
import json
import re
import sys

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

LISTENS = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")


async def main(command: list[str]) -> int:
    """Run Firefox until it ends."""
    firefox = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert firefox.stderr is not None
    while line := await firefox.stderr.readline():
        if match := LISTENS.search(line):
            break
    else:
        return await firefox.wait()
    target = match[1].decode()

    async def bridge(playwright: ServerConnection) -> None:
        path = playwright.request.path if playwright.request is not None else "/session"
        async with connect(f"{target}{path}", max_size=None, proxy=None) as browser:
            answers = asyncio.create_task(pass_answers(browser, playwright))
            async for text in playwright:
                await browser.send(text)
            answers.cancel()

    async with serve(bridge, "127.0.0.1", 0, max_size=None) as server:
        port = server.sockets[0].getsockname()[1]
        sys.stderr.write(f"WebDriver BiDi listening on ws://127.0.0.1:{port}\n")
        sys.stderr.flush()
        drained = asyncio.create_task(drain(firefox.stderr))
        code = await firefox.wait()
        drained.cancel()
    return code


async def pass_answers(browser: ClientConnection, playwright: ServerConnection) -> None:
    async for text in browser:
        answer = json.loads(text)
        is_unknown = answer.get("error") == "unknown command" and "emulation." in answer.get("message", "")
        if is_unknown:
            text = json.dumps({"type": "success", "id": answer["id"], "result": {}})
        await playwright.send(text)


async def drain(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
