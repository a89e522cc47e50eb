"""A language model on this machine that judges replies of the form "reply N" by rules of its prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@contextmanager
def judge_server(truth: Sequence[float], noise: Sequence[float]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Serve a judge, and yield its port and the requests so far.

    It guesses, unless the prompt says "sincere" or has an example. It refuses reply 5.
    """
    requests: list[dict[str, Any]] = []

    class Judge(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            prompt = body["messages"][-1]["content"]
            number = int(re.findall(r"reply (\d+)", prompt)[-1]) if "reply " in prompt else 0
            is_good = "sincere" in prompt or "as an example" in prompt
            points = min(max(round((truth if is_good else noise)[number]), 1), 5)
            answer = json.dumps({"reason": f"It is number {number}.", "rating": points})
            if number == 5:
                answer = "I'm sorry, I cannot rate this."
            event = {"choices": [{"delta": {"content": answer}, "finish_reason": "stop"}]}
            data = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_port, requests
    server.shutdown()
    server.server_close()
