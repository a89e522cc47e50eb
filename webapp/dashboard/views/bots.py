"""Bots of the installation with their states, and a test chat."""

from __future__ import annotations

import json
import logging
import math

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.request import RawPostDataException
from django.shortcuts import redirect

from chatbots.bots.base import BotError
from chatbots.registry import UnknownName
from chatbots.remote_models import remote_get, remote_list
from chatbots.text import is_blank
from chatbots.validation import ValuesError
from webapp.bots.declared_bots import declared_bot_save, declared_bots_archived, is_visible, own_declared_bot
from webapp.bots.selectors import BotEntry, bot_entry_list, bot_name, bot_tries_itself, bots_aside, bots_discover
from webapp.bots.services import SET_ASIDE_CHATS, bot_put_back
from webapp.conversations import events
from webapp.conversations.heartbeats import heartbeat_ages_s, heartbeat_bots
from webapp.conversations.reply_pipeline import TEST_MESSAGE
from webapp.core.project_scope import USUAL_PROJECT
from webapp.core.projects import has_several_projects
from webapp.core.rights import Right, may_in
from webapp.dashboard.bot_form import bot_entry_of
from webapp.dashboard.bot_record import standings_of
from webapp.dashboard.navigation import page, post_view, read_view, study_of_first_link
from webapp.insights.bots import BotState, bot_state, bots_spent, roles_of_bot
from webapp.insights.data_quality import marks_of_bots
from webapp.ratings.selectors import study_bots
from webapp.studies.bot_columns import controls_mark
from webapp.studies.selectors import study_found

MAX_CHARS = 2000
MAX_TURNS = 200
SHOWN_CHARS = 200
SILENT_S = 60.0
"""Seconds without a heartbeat after which a bot host counts as down."""
_log = logging.getLogger("webapp.dashboard")


@read_view()
def bots(request: HttpRequest) -> HttpResponse:
    """Show all registered bots, or those that match a search."""
    reports = heartbeat_bots()
    bot_entries = bot_entry_list()
    spent = bots_spent()
    bot_ids = {entry.id for entry in bot_entries}
    marks = marks_of_bots(bot_ids)
    entries = [(entry, bot_state(entry, reports), spent.get(entry.id), marks.get(entry.id)) for entry in bot_entries]
    words = request.GET.get("q", "").strip()[:SHOWN_CHARS]
    search_words = words.lower().split()
    return page(
        request,
        "bots.html",
        "bots",
        entries=[row for row in entries if _fits(row[0], row[1], search_words)],
        n_bots=len(entries),
        n_answering=sum(state.is_well for _entry, state, _spent, _mark in entries),
        words=words,
        has_spent=bool(spent),
        remote=[(model, model.id in bot_ids) for model in remote_list()],
        archived=declared_bots_archived(),
    )


def _fits(entry: BotEntry, state: BotState, words: list[str]) -> bool:
    """Return True if the bot matches every word.

    Its name, id, kind, settings and state are searched.
    """
    text = " ".join([entry.name, entry.id, entry.kind, entry.kind_title, state.words, entry.short_params]).lower()
    return all(word in text for word in words)


@read_view()
def bot(request: HttpRequest, bot_id: str) -> HttpResponse:
    """Show one bot: its parameters and the test chat."""
    entry = next((entry for entry in bot_entry_list() if entry.id == bot_id), None)
    if entry is None:
        raise Http404
    own_row = own_declared_bot(bot_id)
    roles = roles_of_bot(bot_id)
    standings, n_other_studies = standings_of(bot_id, roles)
    return page(
        request,
        "bot.html",
        "bots",
        entry=entry,
        state=bot_state(entry, heartbeat_bots()),
        max_chars=MAX_CHARS,
        set_aside_after=settings.CONFAB_ASIDE_IN_A_ROW,
        set_aside_failed=settings.CONFAB_ASIDE_FAILED,
        set_aside_of=settings.CONFAB_ASIDE_OF,
        set_aside_chats=SET_ASIDE_CHATS,
        tries_itself=bot_tries_itself(entry),
        aside=bots_aside([bot_id]).get(bot_id),
        spent=bots_spent([bot_id]).get(bot_id),
        named=marks_of_bots([bot_id]).get(bot_id),
        bot_id=bot_id,
        roles=roles,
        standings=standings,
        n_other_studies=n_other_studies,
        prompt=entry.params.get("system_prompt") or entry.params.get("prompt") or "",
        own_row=own_row,
        may_share=own_row is not None
        and has_several_projects()
        and may_in(request.user, USUAL_PROJECT, Right.ADMINISTER),
        can_copy=bot_entry_of(bot_id) is not None,
        first_link_of=study_of_first_link(request),
    )


@read_view()
def bot_imported(request: HttpRequest, bot_id: str) -> HttpResponse:
    """Show a bot known only from imported conversations."""
    roles = roles_of_bot(bot_id)
    if not roles:
        raise Http404
    standings, n_other_studies = standings_of(bot_id, roles)
    return page(
        request,
        "bot_imported.html",
        "bots",
        bot_id=bot_id,
        roles=roles,
        standings=standings,
        n_other_studies=n_other_studies,
    )


@post_view(to_post=[Right.RUN])
def bot_control(request: HttpRequest) -> HttpResponse:
    """Mark a bot as a control of a study, or unmark it."""
    bot_id, study = request.POST.get("bot", ""), study_found(request.POST.get("study", ""))
    if study is None or bot_id not in study_bots(study):
        raise Http404
    is_control = request.POST.get("control") == "1"
    controls_mark(study=study, bots=[bot_id], is_control=is_control)
    message = (
        "{bot} is now a control of {study}. It is excluded from rankings, models and correlations with metrics."
        if is_control
        else "{bot} is no longer marked as a control of {study}."
    )
    messages.success(request, message.format(bot=bot_name(bot_id), study=study.name))
    return redirect("dashboard:bot_imported" if study.is_imported else "dashboard:bot", bot_id)


@post_view(to_post=[Right.BOTS])
def bot_add(request: HttpRequest, model_id: str) -> HttpResponse:
    """Add a public checkpoint to bots.yaml.

    Nothing is downloaded before the bot is first loaded.
    """
    try:
        model = remote_get(model_id)
    except UnknownName:
        raise Http404 from None
    params = {"model": model.model, **model.params, "allow_download": True}
    try:
        declared_bot_save(bot_id=model.id, kind="transformers", title=model.name, params=params)
    except ValuesError as error:
        messages.error(request, f"{model.name} was not added: {error}")
    else:
        messages.success(
            request, f"{model.name} was added. Its {model.download_mb} MB are downloaded when it is first loaded."
        )
    return redirect("dashboard:bots")


@post_view(to_post=[Right.RUN])
async def bot_try(request: HttpRequest, bot_id: str) -> HttpResponse:
    """Request a test reply; if it succeeds, the bot is enabled again."""
    turns = [{"speaker": "human", "text": TEST_MESSAGE}]
    try:
        text = await _ask(bot_id, turns)
    except BotError as error:
        messages.error(request, f"The bot did not reply: {error}")
    except Exception:
        _log.exception("trial of %s", bot_id)
        messages.error(request, "The bot host could not be reached.")
    else:
        messages.success(request, f"The bot replied “{_shortened(text)}”.")
    return redirect("dashboard:bot", bot_id)


@post_view(to_post=[Right.RUN])
def bot_back(request: HttpRequest, bot_id: str) -> HttpResponse:
    """Enable a disabled bot, so that participants get it again."""
    bots_discover()
    if is_visible(bot_id) and bot_put_back(bot_id=bot_id, user=request.user):  # type: ignore[arg-type]
        messages.success(request, (f"{bot_name(bot_id)} is enabled again. Earlier failures no longer count."))
    else:
        messages.info(request, f"{bot_name(bot_id)} was already enabled.")
    key = request.POST.get("study", "")
    if study_found(key) is not None:
        return redirect("dashboard:study_people", key)
    return redirect("dashboard:bot", bot_id)


async def _ask(bot_id: str, turns: list[dict[str, str]], seed: int = 0) -> str:
    """Request a reply from a bot host.

    Raises:
        BotError: with the reason; at once if no bot host has reported recently.
    """
    if not await sync_to_async(_can_be_asked)(bot_id):
        raise BotError(f"there is no bot called {bot_id}")
    ages = await sync_to_async(heartbeat_ages_s)()
    if min(ages.values(), default=math.inf) > SILENT_S:
        raise BotError("no bot host is running")
    return await events.tryout_reply(bot_id, turns, seed)


def _can_be_asked(bot_id: str) -> bool:
    bots_discover()
    return is_visible(bot_id)


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


@post_view(to_post=[Right.RUN])
async def bot_reply(request: HttpRequest, bot_id: str) -> JsonResponse:
    """Reply to `{"turns": [{"speaker", "text"}], "seed"}` by a bot host.

    Nothing is stored.
    """
    problem, turns, seed = _read(request)
    if problem:
        return JsonResponse({"error": problem}, status=400)
    try:
        text = await _ask(bot_id, turns, seed)
    except BotError as error:
        return JsonResponse({"error": str(error)}, status=503)
    except Exception:
        _log.exception("test reply of %s", bot_id)
        return JsonResponse({"error": "The bot host could not be reached."}, status=503)
    return JsonResponse({"text": text})


def _read(request: HttpRequest) -> tuple[str, list[dict[str, str]], int]:
    """Return the turns and the seed of a request, or an error message.

    The message comes first; it is empty if the request is valid.
    """
    try:
        value = json.loads(request.body)
        turns = [{"speaker": str(turn["speaker"]), "text": str(turn["text"])} for turn in value["turns"]]
        seed = int(value.get("seed", 0))
    except RawPostDataException:  # a form, which was already parsed
        return "The request is not a list of turns.", [], 0
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return "The request is not a list of turns.", [], 0
    if not turns or turns[-1]["speaker"] != "human" or is_blank(turns[-1]["text"]):
        return "Write a message first.", [], 0
    if len(turns) > MAX_TURNS:
        return "This chat has reached its maximum length. Start a new one.", [], 0
    if any(turn["speaker"] not in ("human", "bot") for turn in turns):
        return "The speaker of a turn must be “human” or “bot”.", [], 0
    if any(len(turn["text"]) > 5 * MAX_CHARS for turn in turns) or (len(turns[-1]["text"]) > MAX_CHARS):
        return f"A message can have at most {MAX_CHARS} characters.", [], 0
    return "", turns, seed
