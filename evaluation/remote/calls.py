"""The calls of a Confab server as HTTP: sent, read again where the server is away, and files in pieces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from chatbots.storable import quote
from evaluation.remote.answers import RemoteJob, checked

API = "/api/v1"
_PIECE_BYTES = 1 << 20
_AGAIN_S = (1.0, 3.0, 9.0)


class Calls:
    """The calls of a server, with one token.

    Args:
        url: of the server, as a browser has it up to `/dashboard/`.
        token: made by `api_token make`.
        transport: of tests, in place of the network.
    """

    def __init__(
        self, url: str, token: str, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the address is {quote(url)}; it must begin with http:// or https://")
        self.url = url.rstrip("/").removesuffix("/dashboard")
        self._http = httpx.Client(
            base_url=self.url + API,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(60, read=600),
            transport=transport,
        )

    def __repr__(self) -> str:
        return f"Server({self.url})"

    def _all(self, path: str) -> list[dict[str, Any]]:
        """Return a list that comes in parts."""
        found: list[dict[str, Any]] = []
        while True:
            page = self._get(path, limit=1000, offset=len(found))
            found += page["items"]
            if not page["items"] or len(found) >= page["count"]:
                return found

    def _get(self, path: str, **asked: Any) -> Any:
        return checked(self._patiently(lambda: self._http.get(path, params=asked)))

    def _again(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **asked: Any
    ) -> Any:
        """Make a call that can be sent twice without doing more than once."""
        json = None if body is None else dict(body)
        return checked(
            self._patiently(lambda: self._http.request(method, path, json=json, params=asked))
        )

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return checked(self._http.post(path, json=dict(body)))

    def _upload(self, path: str, file: Path, form: Mapping[str, str]) -> RemoteJob:
        """Send a file with a form; returns the job that reads it."""
        with file.open("rb") as content:
            answer = self._http.post(path, data=dict(form), files={"file": (file.name, content)})
        return RemoteJob.of(checked(answer))

    def _patiently(self, call: Callable[[], httpx.Response]) -> httpx.Response:
        """Retry a read if the server was unavailable or rate-limited; requests that change data are never resent."""
        for pause_s in _AGAIN_S:
            try:
                answer = call()
            except httpx.TransportError:
                time.sleep(pause_s)
                continue
            if answer.status_code not in (429, 502, 503, 504):
                return answer
            time.sleep(float(answer.headers.get("Retry-After", pause_s)))
        return call()

    def _download(self, path: str, file: Path, asked: Mapping[str, Any]) -> Path:
        part = file.with_name(f".{file.name}.part")
        try:
            with (
                self._http.stream("GET", path, params=dict(asked)) as answer,
                part.open("wb") as out,
            ):
                if answer.is_error:
                    answer.read()
                    checked(answer)
                for piece in _pieces(answer):
                    out.write(piece)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
        return file


def _pieces(answer: httpx.Response) -> Iterator[bytes]:
    return answer.iter_bytes(_PIECE_BYTES)
