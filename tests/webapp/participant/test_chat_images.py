"""Images in chats: sent by a page, refused with words, shown to those who may see them, given to bots, erased."""

import asyncio
import base64
import io
import json
import re
import struct
import uuid
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.core.exceptions import ValidationError
from django.core.files.storage import storages
from django.db import transaction
from django.test import Client
from django.utils import timezone
from PIL import Image, PngImagePlugin

import chatbots
from chatbots.bots.base import BotDefaults
from chatbots.registry import bots
from tests.builders import answer, make_conversation, make_rating, make_staff, make_study, signed_in
from tests.webapp.participant.conftest import begin, csrf, entry_field, post
from webapp.asgi import application
from webapp.conversations import images, selectors, services
from webapp.conversations.bot_host import BotHostRuntime
from webapp.conversations.frames import MessageImage
from webapp.conversations.models import ChatImage, Conversation, ReplyReport, Turn
from webapp.core.authentication import token_make
from webapp.core.database import in_database
from webapp.core.errors import Refused
from webapp.core.rights import Right
from webapp.studies.privacy import participants_erase
from webapp.studies.privacy.retention import texts_counts, texts_erase
from webapp.transfer.exporters.base import ExportOptions, exporter_get
from webapp.transfer.package.contents import package_pieces
from webapp.transfer.package.import_package import package_import

pytestmark = pytest.mark.django_db


class Seeing(BotDefaults):
    """Takes images, and says of which kind and size the last one is."""

    kind = "test"
    name = title = "test-seeing"
    takes_images = True

    async def stream(self, context: chatbots.Conversation) -> AsyncIterator[str]:
        """Yield the size of the image."""
        kind, _, data = context.turns[-1].image.partition(",")
        with Image.open(io.BytesIO(base64.b64decode(data))) as result:
            yield f"{kind}, {result.width} by {result.height}, {len(result.getexif())} tags."


class AlsoSeeing(Seeing):
    """A second one, to be compared."""

    name = title = "test-also-seeing"


BOTS = [Seeing.name, AlsoSeeing.name]


@pytest.fixture(autouse=True)
def seeing(tmp_path: Any, settings: Any) -> Iterator[None]:
    """Register the bots, and give the test a folder of images of its own."""
    folder = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "images"}}
    settings.STORAGES = {**settings.STORAGES, "images": folder}
    bots.search()
    for bot in (Seeing(), AlsoSeeing()):
        bots.add(bot)
    yield
    for name in BOTS:
        bots.discard(name)


def picture(size: tuple[int, int] = (60, 40), form: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    """Return an image file of one colour."""
    file = io.BytesIO()
    Image.new(mode, size, "red" if mode == "RGB" else None).save(file, form, **options)
    return file.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """Return a PNG of few bytes whose header names this size."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(bytes((width // 8 + 1) * min(height, 1000)), 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


def seen_study(key: str = "s", **fields: Any) -> Any:
    return make_study(key, bots=BOTS, images=True, min_exchanges=1, **fields)


def upload(browser: Client, conversation: Conversation, data: bytes, client_id: str = "") -> Any:
    """Send a file as the chat page does."""
    fields = {"client_id": client_id or str(uuid.uuid4()), "image": io.BytesIO(data)}
    return browser.post(f"/chat/{conversation.pk}/image/", {**fields, "csrfmiddlewaretoken": csrf(browser)})


def files() -> list[str]:
    """Return the names of the stored files."""
    try:
        return sorted(storages["images"].listdir("")[1])
    except FileNotFoundError:
        return []


def sent(conversation: Conversation, text: str = "Look", description: str = "A red <field>") -> ChatImage:
    """Store an image and send it with a message, which is answered."""
    image = images.image_store(conversation=conversation, client_id=uuid.uuid4(), data=picture())
    services.turn_add_human(
        conversation_id=conversation.pk,
        client_id=uuid.uuid4(),
        text=text,
        image=MessageImage(id=image.pk, description=description),
    )
    answer(conversation, "Red.")
    conversation.refresh_from_db()
    image.refresh_from_db()
    return image


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_an_image_is_stored_once_and_re_encoded(browser: Client, form: str) -> None:
    seen_study()
    conversation = begin(browser)
    page = browser.get(f"/chat/{conversation.pk}/")
    assert page.status_code == 200
    assert 'id="image-file"' in page.content.decode()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x010F] = "SECRET CAMERA"
    client_id = str(uuid.uuid4())
    for _ in range(2):
        response = upload(browser, conversation, picture((3000, 1500), form, exif=exif), client_id)
        assert response.status_code == 201, response.content
    stored = response.json()
    assert (stored["width"], stored["height"]) == (1024, 2048)
    assert files() == [f"{stored['id']}.jpg"]
    response = browser.get(stored["url"])
    assert (response.status_code, response["Content-Type"]) == (200, "image/jpeg")
    assert response["X-Content-Type-Options"] == "nosniff"
    assert b"SECRET" not in response.content
    with Image.open(io.BytesIO(response.content)) as result:
        assert (result.format, result.size, dict(result.getexif())) == ("JPEG", (1024, 2048), {})


def broken_files() -> dict[str, tuple[bytes, int, str]]:
    text = PngImagePlugin.PngInfo()
    text.add_text("bomb", "x" * 50_000_000, zip=True)
    return {
        "pixels": (png_of_size(12_000, 12_000), 413, "40 million"),
        "more pixels": (png_of_size(200_000, 200_000), 413, "40 million"),
        "truncated": (picture((500, 500), "JPEG")[:-300], 400, "JPEG, PNG or WebP"),
        "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', 400, "JPEG, PNG or WebP"),
        "gif": (picture(form="GIF"), 400, "JPEG, PNG or WebP"),
        "page": (b"<!doctype html><script>alert(1)</script>", 400, "JPEG, PNG or WebP"),
        "empty": (b"", 400, "JPEG, PNG or WebP"),
        "text bomb": (picture(pnginfo=text), 400, "JPEG, PNG or WebP"),
        "bytes": (picture() + b"\0" * 6_000_000, 413, "5 MB"),
    }


@pytest.mark.parametrize("kind", broken_files())
def test_a_file_that_is_no_fit_image_is_refused_with_words(browser: Client, kind: str) -> None:
    data, status, words = broken_files()[kind]
    seen_study()
    conversation = begin(browser)
    response = upload(browser, conversation, data)
    assert response.status_code == status, response.content
    assert words in response.json()["message"]
    assert files() == []
    assert not ChatImage.objects.exists()


def test_nothing_hidden_behind_an_image_is_kept(browser: Client) -> None:
    seen_study()
    conversation = begin(browser)
    for hidden in (picture(form="JPEG", comment=b"HIDDEN"), picture() + b"<script>HIDDEN</script>"):
        response = upload(browser, conversation, hidden)
        assert response.status_code == 201
        assert b"HIDDEN" not in browser.get(response.json()["url"]).content


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_images_of_all_modes_are_taken(mode: str) -> None:
    form = "JPEG" if mode == "CMYK" else "PNG"
    encoded, size = images.image_encode(picture(mode=mode, form=form))
    assert size == (60, 40)
    with Image.open(io.BytesIO(encoded)) as result:
        assert result.mode == "RGB"


def test_of_an_animation_the_first_frame_is_stored() -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("blue", "red")]
    file = io.BytesIO()
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:])
    encoded, _size = images.image_encode(file.getvalue())
    with Image.open(io.BytesIO(encoded)) as result:
        assert result.getpixel((10, 10))[2] > 200


def test_who_may_send_an_image_and_when(browser: Client) -> None:
    seen_study()
    conversation = begin(browser)
    response = Client().post(f"/chat/{conversation.pk}/image/")
    assert response.status_code == 404
    response = browser.post(f"/chat/{conversation.pk}/image/", {"client_id": str(uuid.uuid4())})
    assert response.status_code == 403  # without the form's token
    for fields in (
        {},
        {"client_id": "x", "image": io.BytesIO(picture())},
        {"client_id": str(uuid.uuid4()), "image": "x"},
    ):
        response = post(browser, f"/chat/{conversation.pk}/image/", **fields)
        assert response.status_code == 400
        assert "client_id" in response.json()["message"]
    for _ in range(images.MOST_UNSENT):
        assert upload(browser, conversation, picture()).status_code == 201
    response = upload(browser, conversation, picture())
    assert (response.status_code, response.json()["code"]) == (429, "too_fast")
    assert len(files()) == images.MOST_UNSENT
    services.conversation_withdraw(conversation=conversation)
    response = upload(browser, conversation, picture())
    assert response.status_code == 409
    make_study("without", bots=[Seeing.name])
    other = begin(browser, "without")
    assert upload(browser, other, picture()).status_code == 409
    assert 'id="image-file"' not in browser.get(f"/chat/{other.pk}/").content.decode()


def test_a_message_takes_only_an_image_of_its_chat_and_once() -> None:
    study = seen_study()
    conversation, other = make_conversation(study), make_conversation(study, entry_nonce="n")
    image = images.image_store(conversation=conversation, client_id=uuid.uuid4(), data=picture())
    ask = {"client_id": uuid.uuid4(), "text": "", "image": MessageImage(id=image.pk)}
    with pytest.raises(Refused) as refused:
        services.turn_add_human(conversation_id=other.pk, **ask)
    assert (refused.value.code, refused.value.details) == ("bad_image", {"client_id": str(ask["client_id"])})
    assert not Turn.objects.exists()
    first = services.turn_add_human(conversation_id=conversation.pk, **ask)
    again = services.turn_add_human(conversation_id=conversation.pk, **ask)
    assert (first.created, again.created, again.turn.pk) == (True, False, first.turn.pk)
    answer(conversation, "Red.")
    with pytest.raises(Refused, match="no longer available"):
        services.turn_add_human(conversation_id=conversation.pk, **{**ask, "client_id": uuid.uuid4()})
    with pytest.raises(Refused, match="Write something"):
        services.turn_add_human(conversation_id=conversation.pk, client_id=uuid.uuid4(), text=" ")


@pytest.mark.django_db(transaction=True)
async def test_the_socket_takes_an_image_and_the_bot_sees_it() -> None:
    browser = Client(enforce_csrf_checks=True)

    def started() -> tuple[Conversation, dict[str, Any]]:
        seen_study()
        conversation = begin(browser)
        response = upload(browser, conversation, picture((80, 50)))
        assert response.status_code == 201
        return conversation, response.json()

    conversation, stored = await in_database(started)()
    cookies = "; ".join(f"{cookie.key}={cookie.value}" for cookie in browser.cookies.values())
    page = WebsocketCommunicator(application, f"/ws/chat/{conversation.pk}/", headers=[(b"cookie", cookies.encode())])

    async def hears() -> dict[str, Any]:
        return json.loads(await page.receive_from(timeout=60))

    assert (await page.connect())[0]
    assert (await hears())["type"] == "history"
    message = {"type": "message", "client_id": str(uuid.uuid4()), "text": ""}
    for wrong in ({"id": "x"}, {"id": stored["id"], "description": "x" * 501}):
        await page.send_to(json.dumps({**message, "image": wrong}))
        frame = await hears()
        assert (frame["type"], frame["code"]) == ("error", "bad_frame")
        assert "image" in frame["message"]
    await page.send_to(json.dumps({**message, "image": {"id": stored["id"], "description": "A <b>"}}))
    frame = await hears()
    assert (frame["type"], frame["turn"], frame["text"]) == ("turn", 0, "")
    assert {key: frame["image"][key] for key in ("id", "description", "width")} == {
        "id": stored["id"], "description": "A <b>", "width": 80
    }  # fmt: skip
    assert 'alt="A &lt;b&gt;"' in frame["html"]
    runtime = BotHostRuntime()
    runtime.request(conversation.pk)
    while (frame := await hears())["type"] != "reply":
        assert frame["type"] == "token", frame
    await runtime.close()
    assert frame["text"] == "data:image/jpeg;base64, 80 by 50, 0 tags."
    await page.disconnect()
    [human, _bot] = (await in_database(selectors.history)(conversation.pk)).turns
    assert human["image"]["id"] == stored["id"]
    link = re.search('src="([^"]*)"', human["html"])[1]
    response = await asyncio.to_thread(browser.get, link)
    assert (response.status_code, response["Content-Type"]) == (200, "image/jpeg")


def test_pages_show_the_image_and_one_that_is_withheld_to_staff_alone(browser: Client) -> None:
    seen_study("talked")
    conversation = begin(browser, "talked")
    image = sent(conversation)
    page = browser.get(f"/chat/{conversation.pk}/rate/")
    assert page.status_code == 200
    assert 'alt="A red &lt;field&gt;"' in page.content.decode()
    make_rating(conversation)
    other = make_conversation(conversation.study, entry_nonce="n")
    sent(other)
    make_rating(other)
    make_study("j", protocol="dialogues", bots=[], dialogues_of="talked", lets_report=True)
    started = post(browser, "/s/j/start/", consent="on", _entry=entry_field(browser.get("/s/j/")))
    page = browser.get(started.url)
    assert page.status_code == 200
    assert page.content.decode().count('class="chat-image"') == 2

    # Whoever reads the chat can report the image as they can report a reply.
    assert page.content.decode().count("data-line") == 4
    path = f"/task/{started.url.split('/')[2]}/report/?n=1&place=0"
    assert "1: Look" in browser.get(path).content.decode()
    assert post(browser, path, line="1", reason="private").status_code == 200
    [report] = ReplyReport.objects.all()
    assert (report.turn.index, report.turn.speaker) == (0, "human")

    staff = signed_in(Right.READ)
    reader = f"/dashboard/studies/talked/conversations/?chat={conversation.pk}"
    read = staff.get(reader)
    assert read.status_code == 200
    assert 'class="chat-image"' in read.content.decode()
    note = f"/dashboard/conversations/{conversation.pk}/note/"
    response = staff.post(note, {"what": "withhold_image", "turn": "0", "next": reader})
    assert (response.status_code, response.url) == (302, reader)
    image.refresh_from_db()
    assert image.withheld_by == "r"
    page = browser.get(started.url)
    assert page.content.decode().count('class="chat-image"') == 1
    assert "The researchers removed this image." in page.content.decode()
    assert selectors.history(conversation.pk).turns[0]["image"]["url"] == ""
    read = staff.get(reader).content.decode()
    assert 'class="chat-image"' in read
    assert "Hidden from participants by r" in read
    assert staff.post(note, {"what": "show_image", "turn": "0"}).status_code == 302
    assert browser.get(started.url).content.decode().count('class="chat-image"') == 2


def test_links_are_signed_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    image = sent(make_conversation(seen_study()))
    link = images.image_link(image)
    assert Client().get(link).status_code == 200
    assert Client().get(link[:-1]).status_code == 404
    assert Client().get(f"/chat-image/{image.pk.hex}").status_code == 404
    storages["images"].delete(image.name)
    assert Client().get(link).status_code == 404
    monkeypatch.setattr(images, "LINK_S", -1)
    assert Client().get(images.image_link(image)).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_images_are_erased_with_their_person_and_with_the_texts() -> None:
    study = seen_study()
    first, second, third = (make_conversation(study, entry_nonce=f"n{n}") for n in range(3))
    for conversation in (first, second, third):
        sent(conversation)
        images.image_store(conversation=conversation, client_id=uuid.uuid4(), data=picture())
    assert len(files()) == 6
    services.conversation_withdraw(conversation=first)
    assert len(files()) == 4
    with transaction.atomic():
        ChatImage.objects.all().delete()
        transaction.set_rollback(True)
    assert len(files()) == 4
    removed = participants_erase(participants=study.participants.filter(pk=second.participant_id))
    assert removed["images"] == 2
    assert len(files()) == 2
    assert texts_counts(study)["images"] == 2
    texts_erase(study=study)
    assert files() == []
    assert not ChatImage.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_sweep_removes_what_was_never_sent_and_files_without_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert images.images_sweep() == 0
    conversation = make_conversation(seen_study())
    image = sent(conversation)
    images.image_store(conversation=conversation, client_id=uuid.uuid4(), data=picture())
    storages["images"].save("orphan.jpg", io.BytesIO(b"x"))
    assert images.images_sweep() == 0
    later = timezone.now() + timedelta(hours=2)
    monkeypatch.setattr(images, "database_now", lambda: later)
    assert images.images_sweep() == 1
    later += timedelta(days=1)
    assert images.images_sweep() == 1
    assert files() == [image.name]


def test_a_study_of_images_needs_a_bot_that_takes_them() -> None:
    for fields in ({"bots": ["eliza"]}, {"bots": [Seeing.name, "eliza"], "protocol": "arena"}):
        with pytest.raises(ValidationError) as refused:
            make_study("x", images=True, **fields)
        assert "image" in str(refused.value.message_dict["images"])
    mixed = (
        make_study("mixed", images=True, bots=["eliza"])
        if False
        else make_study("mixed", images=True, bots=["eliza", Seeing.name])
    )
    taken = {make_conversation(mixed, entry_nonce=f"n{n}").bot.bot_id for n in range(6)}
    assert taken == {"eliza", Seeing.name}
    for conversation in Conversation.objects.filter(study=mixed):
        assert images.takes_images(conversation) == (conversation.bot.bot_id == Seeing.name)


def test_exports_and_the_api_name_the_image() -> None:
    conversation = make_conversation(seen_study())
    image = sent(conversation)
    messages = exporter_get("messages")
    names = [column.name for column in messages.columns(conversation.study, ExportOptions())]
    human, bot = (dict(zip(names, row, strict=True)) for row in messages.rows(conversation.study, ExportOptions()))
    assert (human["image"], human["image_description"]) == (image.name, "A red <field>")
    assert (bot["image"], bot["image_description"]) == (None, None)
    _row, text = token_make(user=make_staff(Right.READ), name="t", rights=[Right.READ])
    response = Client().get(f"/api/v1/conversations/{conversation.pk}", headers={"authorization": f"Bearer {text}"})
    assert response.status_code == 200
    human, bot = response.json()["turns"]
    assert (human["image"]["description"], bot["image"]) == ("A red <field>", None)
    assert Client().get(human["image"]["url"]).status_code == 200


def test_a_package_has_the_images_where_it_is_asked_for_them(tmp_path: Path) -> None:
    conversation = make_conversation(seen_study())
    image, hidden = sent(conversation), sent(conversation)
    images.image_withhold(conversation=conversation, index=2, user_name="r")
    plain, full = (
        zipfile.ZipFile(io.BytesIO(b"".join(package_pieces(conversation.study, ExportOptions(include_images=asked)))))
        for asked in (False, True)
    )
    assert not [name for name in plain.namelist() if name.startswith("images/")]
    assert "images sent by participants" in plain.read("README.md").decode()
    assert [name for name in full.namelist() if name.startswith("images/")] == [f"images/{image.name}"]
    assert full.read(f"images/{image.name}") == images.file_read(image.name)
    assert f"images/{image.name}" in full.read("SHA256SUMS").decode()
    assert hidden.name in full.read("data/turns.csv").decode()
    file = tmp_path / "package.zip"
    file.write_bytes(b"".join(package_pieces(conversation.study, ExportOptions(include_images=True))))
    package_import(file, study_key="again")
    texts = Turn.objects.filter(conversation__study__key="again").order_by("index").values_list("text", flat=True)
    assert list(texts) == ["Look", "Red.", "Look", "Red."]
