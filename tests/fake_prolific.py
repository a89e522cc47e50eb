"""A Prolific of our own: the part of its interface that Confab uses, on a port of this machine, with its rules."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "token-of-a-researcher"


@dataclass
class FakeProlific:
    """What it holds and what it was asked.

    Attributes:
        codes: completion codes of its only study, with their kinds.
        submissions: by id: status, code, bonuses paid in pence, message of a rejection.
        trouble: answers to give in place of the next ones, for requests whose path ends so: a status, or "drop" to
            close the connection once it is done.
    """

    study_id: str
    codes: list[tuple[str, str]] = field(default_factory=list)
    submissions: dict[str, dict[str, Any]] = field(default_factory=dict)
    trouble: list[tuple[str, int | str]] = field(default_factory=list)
    set_up: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def add(self, *names: str, status: str = "AWAITING REVIEW", code: str = "") -> None:
        for name in names:
            self.submissions[name] = {"status": status, "code": code, "bonuses": []}

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        parts = [part for part in path.split("/") if part][2:]
        if parts[0] == "studies":
            if parts[1] != self.study_id:
                return 404, {"error": {"detail": "Not found."}}
            if parts[2:] == ["screen-out-submissions"]:
                for name in body["submission_ids"]:
                    if self.submissions[name]["status"] not in ("ACTIVE", "AWAITING REVIEW"):
                        return 400, {"error": {"detail": "It cannot be screened out."}}
                    self.submissions[name]["status"] = "SCREENED OUT"
                    self.submissions[name]["bonuses"].append(round(body["bonus_per_submission"] * 100))
                return 202, {"message": "is being processed"}
            kinds = [{"code": code, "code_type": kind} for code, kind in self.codes]
            return 200, {"id": self.study_id, "completion_codes": kinds}
        if parts[0] == "bulk-bonus-payments":
            for name, amount in self.set_up[parts[1]]:  # as often as it is asked
                self.submissions[name]["bonuses"].append(round(amount * 100))
            return 202, "is being processed"
        if parts == ["submissions", "bonus-payments"]:
            rows = [line.split(",") for line in body["csv_bonuses"].split("\n") if line]
            unknown = [name for name, _amount in rows if name not in self.submissions]
            if unknown or body["study_id"] != self.study_id:
                return 400, {"error": {"detail": f"unknown: {unknown}"}}
            number = f"bulk{len(self.set_up)}"
            self.set_up[number] = [(name, float(amount)) for name, amount in rows]
            return 201, {"id": number}
        if parts == ["messages"]:
            self.messages.append(body)
            return 204, {}
        if len(parts) == 1:
            page, size = int(query.get("page", 1)), int(query.get("page_size", 20))
            names = sorted(self.submissions)[(page - 1) * size : page * size]
            rows = [
                {"id": name, "status": self.submissions[name]["status"], "study_code": self.submissions[name]["code"]}
                for name in names
            ]
            return 200, {"results": rows}
        result = self.submissions.get(parts[1])
        if result is None:
            return 404, {"error": {"detail": "Not found."}}
        if method == "GET":
            return 200, {
                "id": parts[1],
                "status": result["status"],
                "entered_code": result["code"],
                "bonus_payments": result["bonuses"],
            }
        expected = {"APPROVE": "APPROVED", "REJECT": "REJECTED"}[body["action"]]
        if result["status"] == expected:
            return 200, {}  # done twice it changes nothing
        if result["status"] != "AWAITING REVIEW":
            return 400, {"error": {"detail": f"A submission that is {result['status']} cannot be changed."}}
        if expected == "REJECTED":
            if len(body["message"]) < 100 or not body["rejection_category"]:
                return 400, {"error": {"detail": "message: at least 100 characters"}}
            result["message"] = body["message"]
        result["status"] = expected
        return 200, {"status": expected}


def _handler(fake: FakeProlific) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            where = urlsplit(self.path)
            fake.asked.append(f"{self.command} {where.path}")
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            trouble = next((one for one in fake.trouble if where.path.endswith(one[0])), None)
            if trouble is not None:
                fake.trouble.remove(trouble)
            if trouble is not None and isinstance(trouble[1], int):
                return self._send(trouble[1], {"error": {"detail": "trouble"}})
            if self.headers.get("Authorization") != f"Token {TOKEN}":
                return self._send(401, {"error": {"detail": "no token"}})
            query = {name: values[0] for name, values in parse_qs(where.query).items()}
            answer = fake.answer(self.command, where.path, query, body)
            if trouble is not None:
                self.close_connection = True
                return None
            return self._send(*answer)

        def _send(self, status: int, result: Any) -> None:
            content = json.dumps(result).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            return

    return Handler


@contextmanager
def fake_prolific(study_id: str) -> Iterator[FakeProlific]:
    """Serve a Prolific with one study until the end of the block."""
    fake = FakeProlific(study_id)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
