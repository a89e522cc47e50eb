"""Images in an S3-compatible bucket: a small server of the protocol takes the place of one."""

import threading
import uuid
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.exceptions import ImproperlyConfigured

from webapp.conversations import images
from webapp.conversations.models import image_name
from webapp.settings import base

pytest.importorskip("storages")


class Bucket(BaseHTTPRequestHandler):
    """Keeps objects in memory; path-style addresses: /bucket/name."""

    objects: dict[str, bytes]

    def respond(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    @property
    def name(self) -> str:
        return urlsplit(self.path).path.removeprefix("/pictures").lstrip("/")

    def do_PUT(self) -> None:
        self.objects[self.name] = self.rfile.read(int(self.headers["Content-Length"]))
        self.respond(200)

    def do_GET(self) -> None:
        if not self.name:
            listed = "".join(f"<Contents><Key>{name}</Key></Contents>" for name in self.objects)
            self.respond(200, f"<ListBucketResult>{listed}</ListBucketResult>".encode())
        elif self.name in self.objects:
            self.respond(200, self.objects[self.name])
        else:
            self.respond(404)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        self.objects.pop(self.name, None)
        self.respond(204)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[dict[str, bytes]]:
    """Serve a bucket, and let the settings name it as an installation does."""
    handler = type("OneBucket", (Bucket,), {"objects": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    variables = {
        "CONFAB_IMAGES_BUCKET": "pictures",
        "CONFAB_IMAGES_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings.STORAGES = {**settings.STORAGES, "images": base.image_storage()}
    yield handler.objects
    server.shutdown()
    server.server_close()


@pytest.mark.django_db
def test_images_lie_in_a_bucket_and_are_swept_there(bucket: dict[str, bytes]) -> None:
    name = image_name(uuid.uuid4())
    assert images.image_storage().save(name, images.ContentFile(b"jpeg")) == name
    assert bucket == {name: b"jpeg"}
    assert images.file_read(name) == b"jpeg"
    assert images.images_sweep() == 0  # not a day old
    images.image_file_delete(name)
    assert bucket == {}
    assert images.file_read(name) is None


def test_a_bucket_needs_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFAB_IMAGES_BUCKET", "pictures")
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    with pytest.raises(ImproperlyConfigured, match=r"confab\[s3\]"):
        base.image_storage()
