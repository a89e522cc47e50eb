"""Images in replies of endpoint bots: taken out, stored, shown in frames and on pages, or left out with a reason."""

import asyncio
import base64
import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.utils.html import escape
from PIL import Image

import chatbots
from chatbots.bots.endpoint import EndpointBot
from chatbots.generation.output_filter import MarkdownImageFilter
from chatbots.registry import bots
from tests.builders import make_conversation, make_study, signed_in
from tests.chatbots.endpoint_server import SSE, Answer, Send, Server, chunk, says, serving
from webapp.conversations import events, images, selectors, services
from webapp.conversations.bot_host import BotHostRuntime
from webapp.conversations.models import ChatImage, Conversation, ReplyFailure
from webapp.core.database import in_database
from webapp.core.rights import Right

pytestmark = pytest.mark.django_db(transaction=True)


FILE = io.BytesIO()
Image.new("RGB", (60, 40), "red").save(FILE, "PNG")
PICTURE = f"data:image/png;base64,{base64.b64encode(FILE.getvalue()).decode()}"
ELSEWHERE = "https://a.example/b.png"
MARKDOWN = [f"Here: ![A <b>](<{PICTURE[:40]}", PICTURE[40:], f"> 'A title') and ![x]({ELSEWHERE})."]


TEXT = "data:image/png;base64,AAAA"


def sends(text: Any, *addresses: str, in_content: bool = False) -> Answer:
    """Answer with one delta of text and images."""
    parts = [{"type": "image_url", "image_url": {"url": address}} for address in addresses]
    delta = {"content": [{"type": "text", "text": text}, *parts]} if in_content else {"content": text, "images": parts}

    async def answer(_server: Server, send: Send) -> None:
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        await send(SSE + b"\r\ndata: " + json.dumps(event).encode() + b"\n\n" + chunk(finish="stop"))

    return answer


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, settings: Any) -> Iterator[None]:
    """Give the test a folder of images, and remove its bot."""
    place = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "images"}}
    settings.STORAGES = {**settings.STORAGES, "images": place}
    bots.search()
    yield
    bots.discard("draws")


async def replied(answer: Answer, **fields: Any) -> tuple[Conversation, dict[str, Any]]:
    """Have a bot reply by this answer; return the chat and the last frame."""
    layer = get_channel_layer(events.FRAMES)
    settings = {"bots": ["draws"], "images": True, "min_exchanges": 1, "language": "de", **fields}
    async with serving(answer) as server:
        bots.add(EndpointBot(name="draws", model="m", base_url=f"http://127.0.0.1:{server.port}/v1", takes_images=True))
        chat = await in_database(lambda: make_conversation(make_study("s", **settings)))()
        channel = await layer.new_channel()
        await layer.group_add(events.conversation_group(chat.pk), channel)
        await in_database(services.turn_add_human)(conversation_id=chat.pk, client_id=uuid.uuid4(), text="Draw.")
        runtime = BotHostRuntime()
        await runtime._answer(chat.pk)
        while (frame := (await asyncio.wait_for(layer.receive(channel), 60))["frame"])["type"] in ("token", "html"):
            assert "base64" not in frame["text"]
        await runtime.close()
    return chat, frame


@pytest.mark.parametrize(
    ("answer", "text", "description"),
    [
        (sends("Here:", PICTURE, ELSEWHERE), "Here:", ""),
        (sends("Here:", PICTURE, in_content=True), "Here:", ""),
        (sends("", PICTURE), "", ""),
        (says(*MARKDOWN), "Here:  and ![x](https://a.example/b.png).", "A <b>"),
    ],
)
async def test_the_first_image_is_stored_with_the_reply(answer: Answer, text: str, description: str) -> None:
    chat, frame = await replied(answer)
    assert (frame["type"], frame["text"], frame["image"]["width"]) == ("reply", text, 60)
    assert f'alt="{escape(description) or "Bild ohne Beschreibung"}"' in frame["html"]

    def looks() -> None:
        [image] = ChatImage.objects.all()
        assert (image.turn.index, image.turn.text, image.description) == (1, text, description)
        with Image.open(io.BytesIO(images.file_read(image.name))) as result:
            assert (result.format, result.size) == ("JPEG", (60, 40))
        assert selectors.history(chat.pk).turns[1]["image"]["id"] == str(image.pk)
        assert selectors.reply_state(chat.pk, 1).image == image
        page = signed_in(Right.READ).get(f"/dashboard/studies/s/conversations/?chat={chat.pk}")
        assert page.status_code == 200
        assert page.content.decode().count('class="chat-image"') == 1

    await in_database(looks)()


@pytest.mark.parametrize(("address", "reason"), [(ELSEWHERE, ELSEWHERE), (TEXT, "as an image"), (TEXT[:-3], "base64")])
@pytest.mark.parametrize("text", ["Here:", ""])
async def test_a_wrong_image_is_left_out_with_a_reason(address: str, reason: str, text: str) -> None:
    _chat, frame = await replied(sends(text, address))
    assert (frame["type"], frame.get("text", ""), "image" in frame) == ("reply" if text else "error", text, False)
    [failure] = await in_database(lambda: list(ReplyFailure.objects.all()))()
    assert reason in failure.reason
    assert not await in_database(ChatImage.objects.exists)()


async def test_a_withheld_reply_has_its_image_withheld() -> None:
    filters = {"reply_filters": {"phrases": "withhold"}, "filter_phrases": ["here"]}
    _chat, frame = await replied(sends("Here:", PICTURE), **filters)
    assert (frame["text"], frame["image"]["url"]) == ("Diese Antwort wurde gesperrt.", "")
    assert (await in_database(ChatImage.objects.get)()).withheld_by == "a filter"


def test_text_that_only_looks_like_an_image_stays() -> None:
    results: list[tuple[str, str]] = []
    texts = {"Wow! ![a](b) ![": "Wow! ![a](b) ![", f"a ![b]( {PICTURE} )c": "a c", f"a ![b]({PICTURE}": "a "}
    for whole, text in texts.items():
        for size in (1, 7, 10_000):
            one = MarkdownImageFilter(lambda *image: results.append(image))
            pieces = [one.take(whole[at : at + size]) for at in range(0, len(whole), size)]
            assert "".join(pieces) + one.end() == text
    assert results == [(PICTURE, "b")] * 3


def test_images_after_remembered_sittings_stay_with_their_message() -> None:
    name = images.image_storage().save("a.jpg", io.BytesIO(b"x"))
    context = chatbots.Conversation.from_texts(["earlier", "Hi.", "now", "drawn"])
    attached = images.images_attached(replace(context, offset=-2), {0: name, 1: name})
    assert [bool(turn.image) for turn in attached.turns] == [False, False, True, False], "endpoints refuse bots' own"
