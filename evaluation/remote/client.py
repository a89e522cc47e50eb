"""Client of a Confab server: HTTP calls, jobs and conversations.

Reads are retried while the server is unavailable; files are streamed.
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
    """Error response of the server.

    Attributes:
        status: HTTP status.
        code: error code of the API.
        mistakes: validation errors: (path, message).
    """

    def __init__(self, status: int, code: str, message: str, mistakes: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status, self.code, self.mistakes = status, code, tuple(mistakes)


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """Snapshot of a job on the server.

    Attributes:
        state: queued, running, done, failed, cancelled or interrupted.
        result: result of a finished job, for kinds of jobs that have one.
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
        """Parse a job from the API's document."""
        return cls(**{name: document[name] for name in cls.__slots__})


def checked(answer: httpx.Response) -> Any:
    """Return the content of a successful response.

    Raises:
        ServerError: if the request was rejected.
    """
    if not answer.is_error:
        return answer.json()
    try:
        error = answer.json()["error"]
        mistakes = [(mistake["path"], mistake["message"]) for mistake in error["mistakes"]]
        server_error = ServerError(answer.status_code, error["code"], error["message"], mistakes)
    except (ValueError, KeyError, TypeError):
        server_error = ServerError(
            answer.status_code, "no_api", f"{answer.url} responded with {answer.status_code}; is it a Confab server?"
        )
    raise server_error


API = "/api/v1"
_PIECE_BYTES = 1 << 20
_AGAIN_S = (1.0, 3.0, 9.0)


class Calls:
    """HTTP calls to a server with an API token.

    Args:
        url: base URL of the server, without `/dashboard/`.
        token: token made by `api_token make`.
        transport: replaces the network in tests.
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
        """Return all items of a paginated list."""
        items: list[dict[str, Any]] = []
        while True:
            page = self._get(path, limit=1000, offset=len(items))
            items += page["items"]
            if not page["items"] or len(items) >= page["count"]:
                return items

    def _get(self, path: str, **params: Any) -> Any:
        return checked(self._patiently(lambda: self._http.get(path, params=params)))

    def _again(self, method: str, path: str, body: Mapping[str, Any] | None = None, **params: Any) -> Any:
        """Send an idempotent request, retrying it if necessary."""
        json = None if body is None else dict(body)
        return checked(self._patiently(lambda: self._http.request(method, path, json=json, params=params)))

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return checked(self._http.post(path, json=dict(body)))

    def _upload(self, path: str, file: Path, form: Mapping[str, str | list[str]]) -> RemoteJob:
        """Upload a file with a form; returns the import job."""
        with file.open("rb") as content:
            answer = self._http.post(path, data=dict(form), files={"file": (file.name, content)})
        return RemoteJob.from_document(checked(answer))

    def _patiently(self, call: Callable[[], httpx.Response]) -> httpx.Response:
        """Retry a read if the server is unavailable or limits the rate.

        Requests that change data are never resent.
        """
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
    """Calls for jobs of the server's workers."""

    def jobs(self, *, unfinished: bool = False) -> list[RemoteJob]:
        """Return the newest jobs of all kinds, up to 100."""
        return [RemoteJob.from_document(document) for document in self._get("/jobs", unfinished=unfinished)]

    def job(self, job: RemoteJob) -> RemoteJob:
        """Return a job's current state."""
        return RemoteJob.from_document(self._get(f"/jobs/{job.kind}/{job.id}"))

    def stop(self, job: RemoteJob) -> RemoteJob:
        """Request that a job stop; its output so far is kept."""
        return RemoteJob.from_document(self._post(f"/jobs/{job.kind}/{job.id}/stop", {}))

    def go_on(self, job: RemoteJob) -> RemoteJob:
        """Resume a job that failed, was stopped or was interrupted."""
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
            told: called with the job after each poll.

        Raises:
            RuntimeError: if the job failed or was stopped, with its reason.
            TimeoutError: if it has not finished after `timeout_s` seconds; the job continues.
        """
        started_at = time.monotonic()
        while True:
            now = self.job(job)
            told(now)
            if now.is_over:
                break
            if timeout_s is not None and time.monotonic() - started_at >= timeout_s:
                raise TimeoutError(f"{now.title} is not finished after {timeout_s:g} seconds")
            time.sleep(every_s)
        if now.state != "done":
            raise RuntimeError(f"{now.title}: {now.error or now.state}")
        return now

    def _wait_for_result(self, path: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Poll an analysis until it covers the current data."""
        while True:
            document = self._get(path, **params)
            if document["job"] is None:
                return dict(document)
            self.wait(RemoteJob.from_document(document["job"]))


class ConversationCalls(Calls):
    """Calls for conversations, with their tags, notes and stars.

    All calls that change something are idempotent.
    """

    def conversations(
        self, key: str = "", q: str = "", *, run: int | None = None, **params: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the conversations of a study or run that match a query.

        Pages are fetched on demand.

        Args:
            q: query as in the conversation browser, such as `bot:eliza quality<4 sort:quality limit:20`.
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
        """Star a conversation; returns its updated star, tags and notes."""
        return dict(self._again("PUT", f"/conversations/{id}/star"))

    def unstar(self, id: str) -> dict[str, Any]:
        """Unstar a conversation; returns its updated star, tags and notes."""
        return dict(self._again("DELETE", f"/conversations/{id}/star"))

    def tag(self, id: str, text: str) -> dict[str, Any]:
        """Tag a conversation; returns its updated star, tags and notes.

        Raises:
            ServerError: if the tag is invalid; the message gives the valid form.
        """
        return dict(self._again("POST", f"/conversations/{id}/tags", {"text": text}))

    def untag(self, id: str, text: str) -> dict[str, Any]:
        """Remove a conversation's tag; returns its updated star, tags and notes."""
        return dict(self._again("DELETE", f"/conversations/{id}/tags", text=text))

    def note(self, id: str, text: str) -> dict[str, Any]:
        """Add a note to a conversation; returns its star, tags and notes."""
        return dict(self._again("POST", f"/conversations/{id}/notes", {"text": text}))

    def note_remove(self, id: str, note: int) -> dict[str, Any]:
        """Remove a note by id; returns the star, tags and notes."""
        return dict(self._again("DELETE", f"/conversations/{id}/notes/{note}"))

    def searches(self, key: str = "", *, run: int | None = None) -> list[dict[str, Any]]:
        """Return the owner's saved searches for a study or run."""
        return list(self._get(f"{_searched(key, run, 'searches')}/searches"))

    def search_keep(
        self, key: str = "", name: str = "", q: str = "", *, run: int | None = None, columns: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Save a query by name; returns all saved searches.

        An existing search of this name is replaced.

        Args:
            columns: numeric columns shown in the list.
        """
        body = {"name": name, "q": q, "columns": ",".join(columns)}
        base_path = _searched(key, run, "search_keep")
        return list(self._again("POST", f"{base_path}/searches", body))

    def search_forget(self, key: str = "", name: str = "", *, run: int | None = None) -> list[dict[str, Any]]:
        """Delete a saved search by name; returns the remaining ones."""
        base_path = _searched(key, run, "search_forget")
        return list(self._again("DELETE", f"{base_path}/searches", name=name))


def _searched(key: str, run: int | None, call: str) -> str:
    """Return the path of the given study or run.

    Raises:
        ValueError: if neither or both are given.
    """
    if bool(key) == (run is not None):
        raise ValueError(f"{call} needs either a study or a run")
    return f"/studies/{key}" if key else f"/runs/{run}"
