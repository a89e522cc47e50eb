"""A program that calls the API with a token, and the API's description."""

from functools import cache
from typing import Any

from django.test import Client

from tests.builders import make_staff
from webapp.api.urls import api
from webapp.core.authentication import token_make
from webapp.core.rights import Right


@cache
def openapi() -> dict[str, Any]:
    """Return the API's description, made once for all tests: it takes seconds."""
    return api.get_openapi_schema()


class Program:
    """Calls the API with a token of these rights."""

    def __init__(self, *rights: Right, name: str = "ci") -> None:
        self.user = make_staff(*(rights or (Right.READ,)), username=name)
        self.row, self.token = token_make(user=self.user, name=name, rights=[r.value for r in rights])
        self.client = Client(headers={"authorization": f"Bearer {self.token}"})

    def get(self, path: str, **asked: Any) -> Any:
        return self.client.get(f"/api/v1/{path}", asked)

    def post(self, path: str, body: Any = None) -> Any:
        return self.client.post(f"/api/v1/{path}", body or {}, content_type="application/json")

    def put(self, path: str) -> Any:
        return self.client.put(f"/api/v1/{path}")

    def delete(self, path: str, **asked: str) -> Any:
        return self.client.delete(f"/api/v1/{path}", query_params=asked)


def streamed(answer: Any) -> bytes:
    """Return the bytes of a file that was sent."""
    return b"".join(answer.streaming_content)
