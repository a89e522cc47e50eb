"""A test has to look at the status of a page that is refused or elsewhere: one rule for all of Django's test clients.

A test that counts queries, or says which words a page does not have, would pass on a page that is not there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from django.test import Client


@dataclass
class Answer:
    """Response of a test client, and what the test has read of it."""

    request: str
    status: int
    is_looked_at: bool = False
    is_read: bool = False

    @property
    def is_overlooked(self) -> bool:
        """Tell whether the test relied on a page that it was not given."""
        if self.is_looked_at or self.status < 300:
            return False
        return self.status >= 400 or self.is_read


@cache
def _looked_at(kind: type) -> type:
    """Return the class of a response that notes what is read of it."""

    def status_code(self: Any) -> int:
        self.test_answer.is_looked_at = True
        return self.test_answer.status

    def content(self: Any) -> bytes:
        self.test_answer.is_read = True
        return super(noting, self).content

    def url(self: Any) -> str:
        self.test_answer.is_looked_at = True
        return super(noting, self).url

    def item(self: Any, name: str) -> str:
        self.test_answer.is_looked_at |= name.lower() == "location"
        return kind.__getitem__(self, name)

    members: dict[str, Any] = {"status_code": property(status_code), "__getitem__": item}
    if hasattr(kind, "url"):
        members["url"] = property(url)
    if not getattr(kind, "streaming", False):
        members["content"] = property(content)
    noting = type(kind.__name__, (kind,), members)
    return noting


@contextmanager
def statuses_looked_at() -> Iterator[None]:
    """Fail at the end where a refusal, or the text of a redirect, was taken without a look at the status."""
    answers: list[Answer] = []
    request, redirects_followed = Client.request, Client._handle_redirects

    def noted(self: Client, **environ: Any) -> Any:
        response = request(self, **environ)
        method, path = environ.get("REQUEST_METHOD", "GET"), environ.get("PATH_INFO", "/")
        answers.append(Answer(f"{method} {path}", response.status_code))
        response.__dict__.pop("status_code", None)  # a class has it for 200
        response.test_answer = answers[-1]
        response.__class__ = _looked_at(type(response))
        return response

    def followed(self: Client, *args: Any, **kwargs: Any) -> Any:
        response = redirects_followed(self, *args, **kwargs)
        response.test_answer.is_looked_at = False  # the client looked, not the test
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "request", noted)
        patch.setattr(Client, "_handle_redirects", followed)
        yield
    overlooked = [f"{answer.request}: {answer.status}" for answer in answers if answer.is_overlooked]
    assert not overlooked, f"the test looks at no status of {overlooked}"
