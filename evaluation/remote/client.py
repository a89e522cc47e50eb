"""Client of a Confab server: HTTP calls, jobs and conversations.

Reads are repeated where the server is unavailable; files are sent and read in pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from chatbots.text import quote


class ServerError(RuntimeError):
    """The server refused a call.

    Attributes:
        status: HTTP's.
        code: the server's short word for it.
        mistakes: what is wrong with values that were sent: (path, message).
    """

    def __init__(self, status: int, code: str, message: str, mistakes: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.mistakes = status, code, tuple(mistakes)


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """Work of the server's workers, as it was when it was requested.

    Attributes:
        state: queued, running, done, failed, cancelled or interrupted.
        result: of a job that has a result of its own, once it is done.
    """

    kind: str
    id: int
    title: str
    state: str
    is_over: bool
    n_done: int
    n_total: int
    error: str = ""
    result: Any = field(default=None, repr=False)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> RemoteJob:
        """Return the job that the server describes."""
        return cls(**{name: document[name] for name in cls.__slots__})


def checked(answer: httpx.Response) -> Any:
    """Return the content of a response.

    Raises:
        ServerError: the request was rejected.
    """
    if not answer.is_error:
        return answer.json()
    try:
        error = answer.json()["error"]
        mistakes = [(mistake["path"], mistake["message"]) for mistake in error["mistakes"]]
        server_error = ServerError(answer.status_code, error["code"], error["message"], mistakes)
    except (ValueError, KeyError, TypeError):
        server_error = ServerError(
            answer.status_code, "no_api", f"{answer.url} answered {answer.status_code}: no Confab?"
        )
    raise server_error


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

    def __init__(self, url: str, token: str, *, transport: httpx.BaseTransport | None = None) -> None:
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
        items: list[dict[str, Any]] = []
        while True:
            page = self._get(path, limit=1000, offset=len(items))
            items += page["items"]
            if not page["items"] or len(items) >= page["count"]:
                return items

    def _get(self, path: str, **params: Any) -> Any:
        return checked(self._patiently(lambda: self._http.get(path, params=params)))

    def _again(self, method: str, path: str, body: Mapping[str, Any] | None = None, **params: Any) -> Any:
        """Make a call that can be sent twice without doing more than once."""
        json = None if body is None else dict(body)
        return checked(self._patiently(lambda: self._http.request(method, path, json=json, params=params)))

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return checked(self._http.post(path, json=dict(body)))

    def _upload(self, path: str, file: Path, form: Mapping[str, str]) -> RemoteJob:
        """Send a file with a form; returns the job that reads it."""
        with file.open("rb") as content:
            answer = self._http.post(path, data=dict(form), files={"file": (file.name, content)})
        return RemoteJob.from_document(checked(answer))

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

    def _download(self, path: str, file: Path, params: Mapping[str, Any]) -> Path:
        part = file.with_name(f".{file.name}.part")
        try:
            with self._http.stream("GET", path, params=dict(params)) as answer, part.open("wb") as out:
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


class Jobs(Calls):
    """Jobs of a server's workers."""

    def jobs(self, *, unfinished: bool = False) -> list[RemoteJob]:
        """Return the newest jobs of every kind, at most 100."""
        return [RemoteJob.from_document(document) for document in self._get("/jobs", unfinished=unfinished)]

    def job(self, job: RemoteJob) -> RemoteJob:
        """Return a job as it is now."""
        return RemoteJob.from_document(self._get(f"/jobs/{job.kind}/{job.id}"))

    def stop(self, job: RemoteJob) -> RemoteJob:
        """Request a job to stop; its output so far stays."""
        return RemoteJob.from_document(self._post(f"/jobs/{job.kind}/{job.id}/stop", {}))

    def go_on(self, job: RemoteJob) -> RemoteJob:
        """Go on with a job that failed, was stopped or lost its process."""
        return RemoteJob.from_document(self._post(f"/jobs/{job.kind}/{job.id}/go-on", {}))

    def wait(
        self,
        job: RemoteJob,
        *,
        every_s: float = 2.0,
        timeout_s: float | None = None,
        told: Callable[[RemoteJob], None] = lambda job: None,
    ) -> RemoteJob:
        """Wait until a job is done and return it.

        Args:
            told: called with the job each time it was looked at.

        Raises:
            RuntimeError: it failed or was stopped; with its reason.
            TimeoutError: it is not over after `timeout_s` seconds; it goes on.
        """
        started_at = time.monotonic()
        while True:
            now = self.job(job)
            told(now)
            if now.is_over:
                break
            if timeout_s is not None and time.monotonic() - started_at >= timeout_s:
                raise TimeoutError(f"{now.title} is not over after {timeout_s:g} seconds")
            time.sleep(every_s)
        if now.state != "done":
            raise RuntimeError(f"{now.title}: {now.error or now.state}")
        return now

    def _wait_for_result(self, path: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return an analysis once it is of the data as they are now."""
        while True:
            document = self._get(path, **params)
            if document["job"] is None:
                return dict(document)
            self.wait(RemoteJob.from_document(document["job"]))


class ConversationCalls(Calls):
    """Conversations in studies and self-play, and the labels and notes that readers leave there.

    Each call that leaves something can be sent twice without doing more than once.
    """

    def conversations(
        self, key: str = "", q: str = "", *, run: int | None = None, **params: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the conversations of a study or of a self-play run that a search line asks for, page by page.

        Args:
            q: as in the workbench, such as `bot:eliza quality<4 sort:quality limit:20`.
            params: `columns`, `include_synthetic`, `without`.
        """
        base_path = _searched(key, run, "conversations")
        after = ""
        while True:
            page = self._get(f"{base_path}/conversations", q=q, after=after, limit=500, **params)
            yield from page["items"]
            after = page["after"]
            if not after:
                return

    def conversation(self, id: str) -> dict[str, Any]:
        """Return a conversation with its turns, ratings, metrics, tags and notes."""
        return dict(self._get(f"/conversations/{id}"))

    def star(self, id: str) -> dict[str, Any]:
        """Star a conversation; returns its star, tags and notes afterwards."""
        return dict(self._again("PUT", f"/conversations/{id}/star"))

    def unstar(self, id: str) -> dict[str, Any]:
        """Remove the star of a conversation; returns its star, tags and notes afterwards."""
        return dict(self._again("DELETE", f"/conversations/{id}/star"))

    def tag(self, id: str, text: str) -> dict[str, Any]:
        """Tag a conversation; returns its star, tags and notes afterwards.

        Raises:
            ServerError: it is no tag, with what one is.
        """
        return dict(self._again("POST", f"/conversations/{id}/tags", {"text": text}))

    def untag(self, id: str, text: str) -> dict[str, Any]:
        """Remove a tag of a conversation; returns its star, tags and notes afterwards."""
        return dict(self._again("DELETE", f"/conversations/{id}/tags", text=text))

    def note(self, id: str, text: str) -> dict[str, Any]:
        """Add a note to a conversation; returns its star, tags and notes afterwards."""
        return dict(self._again("POST", f"/conversations/{id}/notes", {"text": text}))

    def note_remove(self, id: str, note: int) -> dict[str, Any]:
        """Remove a note of a conversation by the note's own id; returns its star, tags and notes afterwards."""
        return dict(self._again("DELETE", f"/conversations/{id}/notes/{note}"))

    def searches(self, key: str = "", *, run: int | None = None) -> list[dict[str, Any]]:
        """Return the searches of a study or of a self-play run that the token's person keeps."""
        return list(self._get(f"{_searched(key, run, 'searches')}/searches"))

    def search_keep(
        self, key: str = "", name: str = "", q: str = "", *, run: int | None = None, columns: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Keep a search line of a study or run by name, in the place of one of the same name; returns all that are
        kept.

        Args:
            columns: numbers that the list shows.
        """
        body = {"name": name, "q": q, "columns": ",".join(columns)}
        base_path = _searched(key, run, "search_keep")
        return list(self._again("POST", f"{base_path}/searches", body))

    def search_forget(self, key: str = "", name: str = "", *, run: int | None = None) -> list[dict[str, Any]]:
        """Forget a search of a study or run by its name; returns those that are kept."""
        base_path = _searched(key, run, "search_forget")
        return list(self._again("DELETE", f"{base_path}/searches", name=name))


def _searched(key: str, run: int | None, call: str) -> str:
    """Return the path of the study or of the run, whichever is given.

    Raises:
        ValueError: neither is, or both are.
    """
    if bool(key) == (run is not None):
        raise ValueError(f"{call} needs a study or a run, and not both")
    return f"/studies/{key}" if key else f"/runs/{run}"
