"""Responses of a Confab server to an API client: the state of a job, or the error of a rejected request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx


class ServerError(RuntimeError):
    """The server refused a call.

    Attributes:
        status: HTTP's.
        code: the server's short word for it.
        mistakes: what is wrong with values that were sent: (path, message).
    """

    def __init__(
        self, status: int, code: str, message: str, mistakes: Sequence[tuple[str, str]] = ()
    ) -> None:
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
    def of(cls, document: Mapping[str, Any]) -> RemoteJob:
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
        mistakes = [(one["path"], one["message"]) for one in error["mistakes"]]
        found = ServerError(answer.status_code, error["code"], error["message"], mistakes)
    except (ValueError, KeyError, TypeError):
        found = ServerError(
            answer.status_code, "no_api", f"{answer.url} answered {answer.status_code}: no Confab?"
        )
    raise found
