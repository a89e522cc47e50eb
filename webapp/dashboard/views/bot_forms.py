"""Adding bots in the browser: form, test reply, and archive."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import messages
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from chatbots import Conversation
from chatbots.bots.base import Bot, BotError, StreamBot, set_deadline
from chatbots.text import error_text
from webapp.bots.declared_bots import declared_bot_archive, declared_bot_of, declared_bot_share, own_declared_bot
from webapp.bots.selectors import bots_discover
from webapp.bots.services import bot_answered
from webapp.conversations.reply_pipeline import TEST_MESSAGE
from webapp.core.project_scope import USUAL_PROJECT
from webapp.core.rights import Right, may_in
from webapp.dashboard.bot_form import FIELDS, KIND_TITLES, BotForm, bot_entry_of, studies_collecting_with, studies_named
from webapp.dashboard.navigation import Link, form_view, page, post_view, study_of_first_link

_log = logging.getLogger("webapp.dashboard")
_SALT = "confab.bot-trial"


@form_view(Right.BOTS)
@sensitive_post_parameters("new_key")
def bot_new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new bot, and store it.

    It may be filled in as a copy.
    """
    entry = None
    if source := request.GET.get("from", ""):
        bots_discover()
        entry = bot_entry_of(source)
        if entry is None:
            raise Http404
    kind = entry["kind"] if entry is not None else request.GET.get("kind", "endpoint")
    if kind not in FIELDS:
        raise Http404
    form = BotForm(request.POST if request.method == "POST" else None, kind=kind, entry=entry)
    return _answer(request, form)


@form_view(Right.BOTS)
@sensitive_post_parameters("new_key")
def bot_edit(request: HttpRequest, bot_id: str) -> HttpResponse:
    """Show the form of a bot that was added here, and store it."""
    row = own_declared_bot(bot_id)
    if row is None or row.archived_at is not None:
        raise Http404
    bots_discover()
    entry = bot_entry_of(bot_id)
    form = BotForm(request.POST if request.method == "POST" else None, kind=row.kind, entry=entry, row=row)
    return _answer(request, form)


def _answer(request: HttpRequest, form: BotForm) -> HttpResponse:
    study = study_of_first_link(request)
    if request.method == "POST" and form.is_valid() and (row := form.save()) is not None:
        seconds = _tried_s(request.POST.get("proof", ""), form.bot)
        if seconds is not None:
            bot_answered(bot_id=row.bot_id, seconds=seconds)
        then = (
            "" if seconds is not None else " Send it a message: studies can only be opened with bots that have replied."
        )
        messages.success(request, f"{row.title} was saved.{then}")
        if study is not None:
            return redirect("dashboard:study_first", study.key)
        return redirect("dashboard:bot", row.bot_id)
    return page(
        request,
        "bot_form.html",
        "bots",
        form=form,
        kinds=[Link(title, f"?kind={kind}", kind == form.kind) for kind, title in KIND_TITLES.items()],
        can_try=form.kind == "endpoint",
        folders=settings.CONFAB_MODEL_FOLDERS,
        first_link_of=study,
        status=400 if form.errors else 200,
    )


def _tried_s(proof: str, bot: Bot | None) -> float | None:
    """Return the seconds of the bot's test reply before it was stored.

    None without one.
    """
    try:
        key, seconds = signing.loads(proof, salt=_SALT, max_age=3600)
    except signing.BadSignature:
        return None
    return float(seconds) if bot is not None and bot.identity.key == key else None


@post_view(to_post=[Right.BOTS])
@sensitive_post_parameters("new_key")
async def bot_new_try(request: HttpRequest) -> JsonResponse:
    """Request a test reply from the form's endpoint.

    Nothing is stored.
    """
    bot, problem = await sync_to_async(_bot_of_form)(request)
    if bot is None:
        return JsonResponse({"error": problem}, status=400)
    began = time.monotonic()
    set_deadline(began + settings.CONFAB_REPLY_TIMEOUT_S)
    text = ""
    try:
        async with asyncio.timeout(settings.CONFAB_REPLY_TIMEOUT_S):
            await asyncio.to_thread(bot.load, "cpu")
            async for piece in bot.stream(Conversation(id="trial").with_turn("human", TEST_MESSAGE)):
                text += piece
    except TimeoutError:
        return JsonResponse({"error": f"No reply within {settings.CONFAB_REPLY_TIMEOUT_S:g} s."}, status=503)
    except BotError as error:
        return JsonResponse({"error": str(error)}, status=503)
    except Exception as error:
        _log.exception("test reply of a bot that is not stored")
        return JsonResponse({"error": error_text(error) or type(error).__name__}, status=503)
    finally:
        bot.unload()
    seconds = round(time.monotonic() - began, 1)
    proof = signing.dumps([bot.identity.key, seconds], salt=_SALT)
    return JsonResponse({"text": text, "said": TEST_MESSAGE, "seconds": seconds, "proof": proof})


def _bot_of_form(request: HttpRequest) -> tuple[StreamBot | None, str]:
    row = declared_bot_of(request.POST.get("row", ""))
    form = BotForm(request.POST, kind="endpoint", row=row)
    form.is_valid()
    mistakes = [f"{form.fields[name].label}: {' '.join(map(str, errors))}" for name, errors in form.errors.items()]
    bot: Any = form.bot
    return (bot, "") if bot is not None and not mistakes else (None, " ".join(mistakes))


@post_view(to_post=[Right.BOTS])
def bot_archive(request: HttpRequest, bot_id: str) -> HttpResponse:
    """Archive a bot, or restore it."""
    row = own_declared_bot(bot_id)
    if row is None:
        raise Http404
    is_archived = request.POST.get("archived") == "1"
    if is_archived and (using := studies_collecting_with(bot_id)):
        messages.error(request, f"{studies_named(using)} is collecting with {row.title}. Pause the study first.")
        return redirect("dashboard:bot", bot_id)
    declared_bot_archive(row=row, is_archived=is_archived)
    messages.success(
        request,
        f"{row.title} was {'archived' if is_archived else 'restored'}. Its conversations are unchanged.",
        extra_tags=reverse("dashboard:bot_archive", args=[bot_id]) if is_archived else "",
    )
    return redirect("dashboard:bots")


@post_view(to_post=[Right.BOTS])
def bot_share(request: HttpRequest, bot_id: str) -> HttpResponse:
    """Share a bot with all projects, or stop sharing it.

    Only administrators of the server can do this.
    """
    row = own_declared_bot(bot_id)
    if row is None:
        raise Http404
    is_shared = request.POST.get("shared") == "1"
    elsewhere = [study for study in studies_collecting_with(bot_id) if study.project_id != row.project_id]
    if not may_in(request.user, USUAL_PROJECT, Right.ADMINISTER):
        messages.error(request, "Only administrators of the server can share bots with other projects.")
    elif elsewhere and not is_shared:
        messages.error(request, f"{studies_named(elsewhere)} is collecting with {row.title}. Pause the study first.")
    else:
        declared_bot_share(row=row, is_shared=is_shared)
        users = "All projects" if is_shared else "Only this project"
        messages.success(request, f"{users} can use {row.title} now.")
    return redirect("dashboard:bot", bot_id)
