"""Bodies are limited before they are read: what anybody sends stays small, whoever says how long it is."""

import asyncio
import json
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings as django_settings

from tests.builders import make_staff, signed_in
from webapp.asgi import application
from webapp.core.authentication import token_make
from webapp.core.rights import Right

MB = 1_048_576
UPLOADS = "/dashboard/imports/"
TYPE = b"multipart/form-data; boundary=x"


class Sender:
    """A client that sends a body in chunks, and counts how many were taken."""

    def __init__(self, n_chunks: int, chunk: bytes = b"x" * MB) -> None:
        self.n_chunks = n_chunks
        self.chunk = chunk
        self.n_taken = 0
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        self.n_taken += 1
        if self.n_taken > self.n_chunks:
            await asyncio.Event().wait()  # it waits for the answer
        more = self.n_taken < self.n_chunks
        return {"type": "http.request", "body": self.chunk, "more_body": more}

    async def send(self, message: Any) -> None:
        self.sent.append(dict(message))

    async def post(self, path: str, *headers: tuple[bytes, bytes]) -> int:
        """Return the answer's status."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(b"host", b"testserver"), (b"content-type", TYPE), *headers],
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
        }
        await application(scope, self.receive, self.send)
        starts = [m["status"] for m in self.sent if m["type"] == "http.response.start"]
        assert len(starts) == 1
        return starts[0]


def length(n_bytes: int) -> tuple[bytes, bytes]:
    return b"content-length", str(n_bytes).encode()


@pytest.fixture
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to put anything on the disk."""

    def refused(*_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError("the body went to the disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", refused)


async def cookie_of(*rights: Right, username: str = "r") -> tuple[bytes, bytes]:
    """Return the session cookie of staff with these rights."""

    def sign_in() -> str:
        client = signed_in(*rights, username=username)
        return client.cookies[django_settings.SESSION_COOKIE_NAME].value

    session = await sync_to_async(sign_in)()
    return b"cookie", f"a=b; {django_settings.SESSION_COOKIE_NAME}={session}".encode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/s/demo/start/", "/admin/login/", "/nowhere", UPLOADS])
async def test_anonymous_bodies_end_at_the_limit(path: str, no_files: None) -> None:
    declared = Sender(400)
    assert await declared.post(path, length(400 * MB)) == 413
    assert declared.n_taken == 0
    chunked = Sender(400)
    assert await chunked.post(path, (b"transfer-encoding", b"chunked")) == 413
    assert chunked.n_taken <= 2
    lying = Sender(400)
    assert await lying.post(path, length(10)) == 413
    assert lying.n_taken <= 2
    headers = dict(chunked.sent[0]["headers"])
    assert headers[b"connection"] == b"close"
    assert b"at most 1 MB" in chunked.sent[1]["body"]


@pytest.mark.django_db(transaction=True)
async def test_an_image_of_a_chat_may_have_5_megabytes() -> None:
    path = f"/chat/{uuid.uuid4()}/image/"
    taken = Sender(5)
    assert await taken.post(path, length(5 * MB)) == 400  # it was read, and is no form
    for headers in ([length(6 * MB)], []):
        refused = Sender(6)
        assert await refused.post(path, *headers) == 413
        assert b"at most 5 MB" in refused.sent[1]["body"]


@pytest.mark.django_db(transaction=True)
async def test_only_staff_who_may_import_send_more_and_only_there(no_files: None) -> None:
    reader = await cookie_of(Right.READ)
    assert await Sender(5).post(UPLOADS, length(5 * MB), reader) == 413
    assert await Sender(5).post("/dashboard/", length(5 * MB), reader) == 413
    forged = (b"cookie", f"{django_settings.SESSION_COOKIE_NAME}=forged; \xff".encode("latin-1"))
    assert await Sender(5).post(UPLOADS, length(5 * MB), forged) == 413


@pytest.mark.django_db(transaction=True)
async def test_staff_who_may_import_are_read_up_to_the_upload_limit() -> None:
    importer = await cookie_of(Right.READ, Right.RUN)
    for headers in ([length(5 * MB)], []):
        sender = Sender(5)
        # No token of the form: Django itself refuses it, after reading it.
        assert await sender.post(UPLOADS, *headers, importer) == 403
        assert sender.n_taken >= 5
    limit = django_settings.CONFAB_UPLOAD_LIMIT_MB
    assert await Sender(limit + 2).post(UPLOADS, length((limit + 2) * MB), importer) == 413
    results = "/dashboard/studies/s/people/mturk.csv"
    assert await Sender(5).post(results, length(5 * MB), importer) == 413, "who imports, pays not"
    payer = await cookie_of(Right.READ, Right.PAY, Right.PRIVATE, username="payer")
    assert await Sender(5).post(results, length(5 * MB), payer) == 403
    assert await Sender(5).post(UPLOADS, length(5 * MB), payer) == 413
    elsewhere = Sender(5)
    assert await elsewhere.post("/dashboard/runs/", importer) == 413
    assert elsewhere.n_taken <= 2


@pytest.mark.django_db(transaction=True)
async def test_programs_send_conversations_by_their_token_and_are_refused_as_programs() -> None:
    path = "/api/v1/studies/s/conversations"

    def token(*rights: Right) -> tuple[bytes, bytes]:
        user = make_staff(*rights, username="-".join(rights))
        text = token_make(user=user, name="ci", rights=rights)[1]
        return b"authorization", f"Bearer {text}".encode()

    reader = await sync_to_async(token)(Right.READ)
    importer = await sync_to_async(token)(Right.READ, Right.RUN)
    for headers in ([reader], [], [(b"authorization", b"Bearer confab_none")]):
        sender = Sender(5)
        assert await sender.post(path, length(5 * MB), *headers) == 413
        assert dict(sender.sent[0]["headers"])[b"content-type"].startswith(b"application/json")
        error = json.loads(sender.sent[1]["body"])["error"]
        assert (error["code"], error["mistakes"]) == ("too_large", [])
        assert "with a token that may read and run" in error["message"]
    sender = Sender(5)
    assert await sender.post(path, length(5 * MB), importer) == 400, "read, and no form"
    assert sender.n_taken >= 5
    elsewhere = Sender(5)
    assert await elsewhere.post("/api/v1/runs", length(5 * MB), importer) == 413
    assert "token" not in json.loads(elsewhere.sent[1]["body"])["error"]["message"]


@pytest.mark.django_db(transaction=True)
async def test_who_sends_is_asked_after_an_earlier_request_of_the_connection() -> None:
    importer = await cookie_of(Right.READ, Right.RUN)
    with ThreadPoolExecutor(1) as thread:
        async with ThreadSensitiveContext(executor=thread):
            # What begins here keeps this context, as a server's next request on the same connection does.
            inherited = copy_context()

    async def next_request(*headers: tuple[bytes, bytes]) -> int:
        return await Sender(5).post(UPLOADS, *headers, importer)

    begun = [
        asyncio.get_running_loop().create_task(next_request(*headers), context=inherited.copy())
        for headers in ([length(5 * MB)], [])
    ]
    assert [await each for each in begun] == [403, 403], "read, and refused for its form alone"


@pytest.mark.django_db(transaction=True)
async def test_what_is_small_passes() -> None:
    sender = Sender(1, b"x" * 1000)
    assert await sender.post("/nowhere", length(1000)) == 404
