"""Images of messages: decoding, storage, signed links, and removal.

Images that were never sent are removed.

Every image is decoded and re-encoded as JPEG, which drops metadata and hidden content. The file is stored in the
storage `images` under the row's id and deleted with its row, after the commit. Files
that a crash has left without a row are deleted by `images_sweep`.
"""

from __future__ import annotations

import base64
import logging
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4

from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.core.signing import BadSignature, TimestampSigner
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.html import format_html, linebreaks
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

import chatbots
from chatbots.text import quote, sanitise
from webapp.bots.selectors import bots_taking_images
from webapp.conversations.models import ChatImage, Conversation, Turn, image_name
from webapp.core.clock import database_now
from webapp.core.errors import Refused

log = logging.getLogger(__name__)

MOST_IMAGE_MB = 5
MOST_BYTES = MOST_IMAGE_MB * 1024 * 1024
MOST_PIXELS = 40_000_000
LONGEST_SIDE = 2048
"""Maximum side in pixels, as stored; larger images are scaled down."""
MOST_UNSENT = 10
LINK_S = 600
_FORMATS = ("JPEG", "PNG", "WEBP")
_UNSENT_KEPT = timedelta(hours=1)
_ORPHANS_KEPT = timedelta(days=1)
_DECODING = threading.Semaphore(2)
"""Lock: a decoded image takes up to 160 MB, so other threads wait."""


def image_storage() -> Storage:
    """Return the storage of the files: the data folder, or a bucket."""
    return storages["images"]


def image_encode(data: bytes) -> tuple[bytes, tuple[int, int]]:
    """Return an image as JPEG without metadata, with width and height.

    Uses the first frame of an animation.

    Raises:
        Refused: `image_too_large` (bytes or pixels), or `bad_image` for any other file.
    """
    if len(data) > MOST_BYTES:
        message = _("This image is too large. The limit is %(n)s MB.") % {"n": MOST_IMAGE_MB}
        raise Refused("image_too_large", message)
    from PIL import Image, ImageOps  # imported here: most processes never decode an image

    warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit below is lower
    try:
        with Image.open(BytesIO(data), formats=_FORMATS) as source:
            # Only the header has been read so far.
            if source.width * source.height > MOST_PIXELS:
                raise Image.DecompressionBombError
            with _DECODING:
                source.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
                turned = ImageOps.exif_transpose(source)
                # Use a new image, because the decoded one keeps the comments of its file.
                clean = Image.new("RGB", turned.size, "white")
                if turned.has_transparency_data:
                    clean.paste(turned.convert("RGBA"), mask=turned.convert("RGBA"))
                else:
                    clean.paste(turned.convert("RGB"))
    except Image.DecompressionBombError:
        limit = MOST_PIXELS // 1_000_000
        message = _("This image has too many pixels. The limit is %(n)s million.") % {"n": limit}
        raise Refused("image_too_large", message) from None
    except Exception:  # decoders raise many kinds of errors for a broken file
        message = _("This file could not be read as an image. Choose a JPEG, PNG or WebP image.")
        raise Refused("bad_image", message) from None
    encoded = BytesIO()
    clean.save(encoded, "JPEG", quality=88)
    return encoded.getvalue(), clean.size


def image_store(*, conversation: Conversation, client_id: UUID, data: bytes) -> ChatImage:
    """Store an image for a message of the chat.

    A repeated `client_id` returns the stored image.

    Raises:
        Refused: `bad_image`, `image_too_large`, `closed`, `too_fast` if too many are unsent, or `unavailable`.
    """
    known = ChatImage.objects.filter(conversation=conversation, client_id=client_id).first()
    if known is not None:
        return known
    if conversation.state != Conversation.State.OPEN or not takes_images(conversation):
        raise Refused("closed", _("You cannot send images in this chat."))
    if conversation.images.filter(turn=None).count() >= MOST_UNSENT:
        raise Refused("too_fast", _("You have chosen many images. Wait an hour, or send your message without one."))
    new = _file_store(data)
    # If the participant was erased meanwhile, no row is stored and the sweep deletes the file.
    defaults = {"pk": new.pk, "width": new.width, "height": new.height}
    stored, is_new = ChatImage.objects.get_or_create(conversation=conversation, client_id=client_id, defaults=defaults)
    if not is_new:
        image_file_delete(new.name)
    return stored


def _file_store(data: bytes) -> ChatImage:
    """Encode an image and store its file; return the unsaved row."""
    encoded, (width, height) = image_encode(data)
    pk = uuid4()
    try:
        image_storage().save(image_name(pk), ContentFile(encoded))
    except Exception as error:  # errors of the disk or of any kind of bucket
        log.exception("image %s could not be stored", pk)
        image_file_delete(image_name(pk))  # a full disk may have stored part of it
        raise Refused("unavailable", _("The image could not be saved. Try again soon.")) from error
    return ChatImage(pk=pk, width=width, height=height)


def bot_image_store(address: str, description: str) -> ChatImage | Refused:
    """Store a bot's image.

    Returns its unsaved row, or why it was dropped.
    """
    head, _comma, data = address.partition(",")
    if not head.startswith("data:"):
        return Refused("bad_image", f"external images are never loaded: {quote(address)}")
    try:
        image = _file_store(base64.b64decode(data))
    except (Refused, ValueError) as error:
        return Refused("bad_image", f"an image was skipped: {error}")
    image.client_id = image.pk  # no page has created one
    image.description = sanitise(description, ChatImage.MOST_DESCRIPTION_CHARS)
    return image


def takes_images(conversation: Conversation) -> bool:
    """Return True if the chat's study and bot accept images."""
    version = conversation.version
    return version is not None and version.values.chat.images and bool(bots_taking_images([conversation.bot.bot_id]))


def image_send(*, turn: Turn, image_id: UUID, description: str) -> None:
    """Attach an image to the message that is being stored.

    Raises:
        Refused: `bad_image` if it does not exist, or was already sent.
    """
    unsent_images = ChatImage.objects.filter(conversation=turn.conversation_id, pk=image_id, turn=None)
    if not unsent_images.update(turn=turn, description=description):
        message = _("This image is no longer available. Choose it again.")
        raise Refused("bad_image", message, client_id=str(turn.client_id))


def image_withhold(*, conversation: Conversation, index: int, user_name: str) -> None:
    """Hide a turn's image from participants and raters, but not from staff.

    An empty `user_name` shows it.
    """
    withheld_at = database_now() if user_name else None
    ChatImage.objects.filter(conversation=conversation, turn__index=index).update(
        withheld_at=withheld_at, withheld_by=user_name[:150]
    )


def images_of(conversation: Conversation | None) -> dict[int, ChatImage]:
    """Return the conversation's sent images by the number of their turn."""
    version = conversation.version if conversation is not None else None
    if version is None or not version.values.chat.images:
        return {}
    sent = ChatImage.objects.filter(conversation=conversation, turn__isnull=False)
    return {image.turn.index: image for image in sent.select_related("turn") if image.turn is not None}


def images_for_bot(conversation: Conversation) -> dict[int, str]:
    """Return the image files for the chat's bot, by turn.

    None for a bot that accepts no images.
    """
    if not takes_images(conversation):
        return {}
    refused = set(conversation.turns.filter(is_refused=True).values_list("index", flat=True))
    # The bot gets neither a refused message nor the number that its reply would have had.
    return {
        index - 2 * sum(number < index for number in refused): image.name
        for index, image in images_of(conversation).items()
        if not image.withheld_at and index not in refused
    }


def image_link(image: ChatImage) -> str:
    """Return an address that shows the image for `LINK_S` seconds.

    Give it only to users who may see the chat.
    """
    return reverse("chat-image", args=[_signer().sign(image.pk.hex)])


def image_of_link(signed: str) -> bytes | None:
    """Return the file of a signed link.

    None if the link has expired or the image was erased.
    """
    try:
        image = ChatImage.objects.filter(pk=UUID(_signer().unsign(signed, max_age=LINK_S))).first()
    except (BadSignature, ValueError):
        return None
    return file_read(image.name) if image is not None else None


def _signer() -> TimestampSigner:
    return TimestampSigner(salt="chat-image")


def image_html(image: ChatImage, *, for_staff: bool = False) -> SafeString:
    """Return the image as HTML, or the notice if it is hidden."""
    if image.withheld_at and not for_staff:
        return format_html('<p class="chat-image-withheld">{}</p>', _("The researchers removed this image."))
    return format_html(
        '<img class="chat-image" src="{}" alt="{}" width="{}" height="{}">',
        image_link(image),
        image.description or _("Image without a description"),
        image.width,
        image.height,
    )


def with_image(html: SafeString | str, text: str, image: ChatImage | None, *, for_staff: bool = False) -> SafeString:
    """Add a turn's image to its HTML.

    Unchanged without an image.
    """
    if image is None:
        return mark_safe(html)  # noqa: S308 made by `reply_html`
    text_html = html or (mark_safe(linebreaks(text, autoescape=True)) if text else "")  # noqa: S308
    return format_html("{}{}", image_html(image, for_staff=for_staff), text_html)


def image_fields(image: ChatImage | None, text: str, html: SafeString | str = "") -> dict[str, Any]:
    """Return a turn's frame fields `image` and `html` (the whole turn)."""
    if image is None:
        return {}
    link = "" if image.withheld_at else image_link(image)
    link_fields = {"id": str(image.pk), "url": link, "description": image.description}
    return {
        "image": {**link_fields, "width": image.width, "height": image.height},
        "html": with_image(html, text, image),
    }


def images_attached(context: chatbots.Conversation, names: Mapping[int, str]) -> chatbots.Conversation:
    """Return the conversation with its images as `data:` addresses.

    Args:
        names: files by the number of their turn; missing files are left out, and so are bots' images, which endpoints
            reject.
    """
    turns = list(context.turns)
    for index, name in names.items():
        position = index - context.offset
        if turns[position].speaker == Turn.Speaker.HUMAN and (data := file_read(name)) is not None:
            address = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
            turns[position] = replace(turns[position], image=address)
    return replace(context, turns=tuple(turns))


def images_sweep() -> int:
    """Delete images unsent for an hour and day-old orphaned files.

    Returns the number.
    """
    now = database_now()
    _rows, deleted_counts = ChatImage.objects.filter(turn=None, created_at__lt=now - _UNSENT_KEPT).delete()
    n, storage = sum(deleted_counts.values()), image_storage()
    try:
        names = storage.listdir("")[1]
    except FileNotFoundError:  # the folder is created for the first image
        return n
    known_names = {image_name(pk) for pk in ChatImage.objects.values_list("pk", flat=True)}
    for name in names:
        if name not in known_names and storage.get_modified_time(name) < now - _ORPHANS_KEPT:
            image_file_delete(name)
            n += 1
    return n


def image_files(conversations: QuerySet[Conversation]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the conversations' sent images.

    Hidden and missing images are left out.
    """
    sent_images = ChatImage.objects.filter(conversation__in=conversations, turn__isnull=False, withheld_at=None)
    for image in sent_images.order_by("pk").iterator(chunk_size=500):
        if (data := file_read(image.name)) is not None:
            yield image.name, data


def image_file_delete(name: str) -> None:
    """Delete a file.

    If that fails, `images_sweep` deletes it later.
    """
    try:
        image_storage().delete(name)
    except Exception:
        log.exception("the file of image %s could not be deleted; retrying within a day", name)


def file_read(name: str) -> bytes | None:
    """Return the content of a file; None if it is missing."""
    try:
        with image_storage().open(name) as file:
            return file.read()
    except FileNotFoundError:
        return None
