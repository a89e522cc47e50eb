"""Scripted participants, and their actions: one function per step.

An action ends on the page after its step.

An action ends on the page after its step.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

import httpx
from websockets.asyncio.client import ClientConnection

from chatbots.participants.scripted import Impression
from webapp.participant.question_forms.base import ScriptedPage, ScriptedSheet, Sheet, sheets
from webapp.participant.simulated.answers import ScriptedPerson, ScriptedTexts
from webapp.participant.simulated.client import PageForm, PageTexts, StepRefused, StudyClient, frames_until, say
from webapp.participant.steps.base import steps
from webapp.studies.questions import BETWEEN_CHOICES

_ATTENTIVE = 0.95
"""Fraction of scripted participants who use the page's answer to pass a check."""
_MOST_REFUSED = 3
"""Refused messages before a scripted participant ends the chat."""


def _by_chance(page_form: PageForm, person: ScriptedPerson) -> dict[str, str | list[str]]:
    """Fill in text fields and boxes at random."""
    answers: dict[str, str | list[str]] = dict.fromkeys(page_form.texts, person.comment)
    answers |= {
        name: person.rng.sample(options, person.rng.randint(1, len(options)))
        for name, options in page_form.boxes.items()
    }
    return answers


def _attentive(page_form: PageForm, rng: random.Random) -> dict[str, str | list[str]]:
    """Return the page's hidden answers to its attention checks.

    Some participants ignore them.
    """
    right: dict[str, str | list[str]] = {}
    for name, value in page_form.hidden.items():
        if name.startswith("_right_") and rng.random() < _ATTENTIVE:
            field = name.removeprefix("_right_")
            right[field] = value.split(BETWEEN_CHOICES) if field in page_form.boxes else value
    return right


async def fill_form(person: ScriptedPerson) -> None:
    """Answer the form of the step at random, and its attention checks mostly right."""
    step = person.doors.step
    page_form, rng = person.doors.form(f"/{step}/"), person.rng
    answers = _by_chance(page_form, person)
    answers |= {name: rng.choice(options) for name, options in page_form.choices.items()}
    answers |= {name: rng.choice(points) for name, points in page_form.points.items()}
    answers |= _attentive(page_form, rng)
    after = await person.doors.send(page_form, answers)
    if person.doors.step == step:
        raise StepRefused(f"the answers were not accepted at {after.url.path} ({after.status_code})")


async def chat(person: ScriptedPerson) -> None:
    """Write messages and vote until the chat can be rated.

    Continue a little, then go to the form.
    """
    person.said, person.heard = [], []
    person.begin()
    n_extra = person.rng.randint(0, person.n_more)
    async with person.doors.socket() as socket:
        await frames_until(socket, "history")
        if " data-person" in person.doors.page.text and not await _partner_is_here(person, socket):
            return
        can_rate, n_refused = False, 0
        while not can_rate or n_extra > 0:
            n_extra -= can_rate
            text = person.message()
            last = (await say(socket, text))[-1]
            if last["type"] == "error":
                if person.said and last["code"] == "closed":
                    break
                if last.get("partner"):
                    await _without_partner(person, last["can"])
                    return
                if "rewrite" in last.get("can", ()):  # a filter refused the message: send another one, or end
                    n_refused += 1
                    if n_refused <= _MOST_REFUSED:
                        continue
                    await person.doors.send(person.doors.form("/finish/"), {})
                    return
                raise StepRefused(f"the chat responded with {last['code']}: {last['message']}")
            person.n_exchanges += 1
            can_rate = last["can_rate"]
            if last["type"] == "history":  # the partner has finished: this message gets no reply
                break
            person.said.append(text)
            person.heard.append(last["text"])
            await _vote(person, socket, last["turn"])
            await _mark(person, socket, last["turn"])
    doors = person.doors
    await _aside(person, f"/chat/{doors.conversation_id}/")
    if PageForm(str(doors.page.url), "/end/").fed(doors.page.text).action:
        await doors.send(doors.form("/end/"), {})
    else:
        await doors.open(f"/chat/{doors.conversation_id}/rate/")


async def _partner_is_here(person: ScriptedPerson, socket: ClientConnection) -> bool:
    """Wait for a person as partner, and for their first message if due.

    False if nobody came.
    """
    state, is_addressed = "waiting", False
    while state == "waiting":
        frames = await frames_until(socket, "waiting", "error")
        # The partner's first message may arrive before the page learns of the partner.
        is_addressed |= any(frame["type"] == "reply" or bool(frame.get("turns")) for frame in frames)
        frame = frames[-1]
        if frame["type"] == "error":
            await _without_partner(person, frame["can"])
            return False
        state = frame["state"]
    if not frame["writes_first"] and not is_addressed:
        frame = (await frames_until(socket, "reply", "error"))[-1]
        if frame["type"] == "error":  # the partner left before the first message
            await _without_partner(person, frame.get("can", ()))
            return False
    return True


async def _without_partner(person: ScriptedPerson, can: Collection[str]) -> None:
    """Continue with a bot if the study lets participants, or end.

    Raises:
        StepRefused: if the server neither offers another chat nor ends this one.
    """
    doors, before = person.doors, person.doors.conversation_id
    for action in (action for action in ("swap", "finish") if action in can):
        await doors.send(doors.form(f"/{action}/"), {})
        if doors.step != "chat" or doors.conversation_id != before:
            return
        await doors.open(f"/chat/{before}/")
    raise StepRefused("no partner joined the chat, and no bot could continue it")


async def _aside(person: ScriptedPerson, page: str) -> None:
    """Answer the researchers' questions in this page's chat."""
    doors = person.doors
    await doors.open(page)
    while (page_form := PageForm(str(doors.page.url), "/answer/").fed(doors.page.text)).action:
        right = page_form.hidden.get("_right_answer", "")
        is_attentive = person.rng.random() < _ATTENTIVE
        options = page_form.choices.get("answer", [person.comment])
        await doors.send(page_form, {"answer": right if is_attentive else person.rng.choice(options)})


async def _mark(person: ScriptedPerson, socket: ClientConnection, turn: int) -> None:
    """Label a reply if the page asks for it.

    Some participants postpone it.
    """
    requested = re.search(r' data-marks="([^"]*)"', person.doors.page.text)
    if requested is None or (requested[1] != "all" and str(turn) not in requested[1].split()):
        return
    if person.rng.random() < 0.5:
        labels = re.findall(r'name="marks" value="([^"]+)"', person.doors.page.text)
        marks = [person.rng.choice(labels)]
        await socket.send(json.dumps({"type": "marks", "turn": turn, "marks": marks}))
        await frames_until(socket, "marks", "error")


async def _vote(person: ScriptedPerson, socket: ClientConnection, turn: int) -> None:
    if value := person.vote(person.said, person.heard):
        await socket.send(json.dumps({"type": "vote", "turn": turn, "value": value}))
        await frames_until(socket, "vote", "error")


async def arena(person: ScriptedPerson) -> None:
    """Write the same messages to both chatbots and choose the better one."""
    doors = person.doors
    page_form = doors.form("/arena/")
    chats = re.findall(r'data-conversation="([^"]+)"', doors.page.text)
    messages: list[str] = []
    heard: dict[str, list[str]] = {chat_id: [] for chat_id in chats}
    n_messages = 1 + person.rng.randint(0, person.n_more)
    person.begin()
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(doors.socket(chat_id)) for chat_id in chats]
        for socket in sockets:
            await frames_until(socket, "history")
        can_choose = False
        while not can_choose or len(messages) < n_messages:
            text = person.message()
            answers = await asyncio.gather(*(say(socket, text) for socket in sockets))
            if messages and all(frames[-1].get("code") == "closed" for frames in answers):
                break  # the study's time limit
            for chat_id, [*_frames, last] in zip(chats, answers, strict=True):
                if last["type"] == "error":
                    raise StepRefused(f"a chat responded with {last['code']}: {last['message']}")
                heard[chat_id].append(last["text"])
            messages.append(text)
            person.n_exchanges += 1
            can_choose = all(frames[-1]["can_rate"] for frames in answers)
    first, second = (Impression.from_replies(messages, heard[chat_id]) for chat_id in chats)
    choice = person.between(first, second, "choice", ["a", "equal", "b"])
    if choice == "equal" and max(person.opinion(impression, "choice") for impression in (first, second)) < 0.5:
        choice = "bad"
    await _aside(person, str(doors.page.url))
    page_form = doors.form("/arena/")
    other_answers = _by_chance(page_form, person)
    other_answers |= {name: person.rng.choice(options) for name, options in page_form.choices.items()}
    after = await doors.send(page_form, {**other_answers, **_attentive(page_form, person.rng), "choice": choice})
    if doors.step == "arena" and doors.form("/arena/").hidden.get("_n") == page_form.hidden["_n"]:
        raise StepRefused(f"the choice was not accepted at {after.url.path} ({after.status_code})")


async def picks(person: ScriptedPerson) -> None:
    """Pick the better of two replies, turn by turn, then end the chat."""
    doors = person.doors
    page_form = doors.form("/picks/")
    chats = re.findall(r'data-conversation="([^"]+)"', doors.page.text)
    [n_most] = map(int, re.findall(r'data-max-exchanges="(\d+)"', doors.page.text))
    allows_equal = 'id="tpl-pick-equal"' in doors.page.text
    person.begin()
    n_extra = person.rng.randint(0, person.n_more)
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(doors.socket(chat_id)) for chat_id in chats]
        for socket in sockets:
            await frames_until(socket, "history")
        can_end, n_said = False, 0
        while (not can_end or n_extra > 0) and n_said < n_most:
            n_extra -= can_end
            n_said += 1
            text = person.message()
            last = [frames[-1] for frames in await asyncio.gather(*(say(socket, text) for socket in sockets))]
            if not (replied := [place for place, frame in enumerate(last) if frame["type"] == "reply"]):
                raise StepRefused(f"a chat responded with {last[0]['code']}: {last[0]['message']}")
            heard = [Impression.from_replies([text], [last[place]["text"]]) for place in replied]
            choice = "a" if len(replied) == 1 else person.between(heard[0], heard[1], "pick", ["a", "equal", "b"])
            place = replied[choice == "b"]
            is_equal = choice == "equal" and allows_equal
            frame = {"type": "pick", "turn": last[place]["turn"], "equal": is_equal}
            await sockets[place].send(json.dumps(frame))
            if (response := (await frames_until(sockets[place], "pick", "error"))[-1])["type"] == "error":
                raise StepRefused(f"the pick was not accepted: {response['code']}: {response['message']}")
            person.n_exchanges += 1
            can_end = all(last[place]["can_rate"] for place in replied)
    await _aside(person, str(doors.page.url))
    page_form = doors.form("/picks/")
    other_answers = _by_chance(page_form, person)
    other_answers |= {name: person.rng.choice(options) for name, options in page_form.choices.items()}
    after = await doors.send(page_form, {**other_answers, **_attentive(page_form, person.rng)})
    if doors.step == "picks" and doors.form("/picks/").hidden.get("_n") == page_form.hidden["_n"]:
        raise StepRefused(f"the chat was not ended at {after.url.path} ({after.status_code})")


async def form(person: ScriptedPerson) -> None:
    """Rate the chat."""
    await person.doors.rate(
        person.answer, comments=person.comment, besides=lambda page_form: _attentive(page_form, person.rng)
    )


async def judge(person: ScriptedPerson) -> None:
    """Answer the questions on this page, and continue to the next."""
    page, doors = person.doors.page.text, person.doors
    page_form = doors.form("/judge/")
    heard = PageTexts(page, "judged-text").found or PageTexts(page, "said-what").found or [""]
    before = PageTexts(page, "said-what").found or [""]
    impression = Impression.from_replies(before[-1:] * len(heard), heard)
    answers = _by_chance(page_form, person)
    sheet = _sheet_of(page)
    own_fields = sheet.scripted_fields if isinstance(sheet, ScriptedSheet) else ()
    for name, choices in {**page_form.choices, **page_form.points}.items():
        if name in own_fields:
            continue
        if choices[0] == "a":
            answers[name] = person.prefer(before[-1], heard, name, choices)
        else:
            answers[name] = person.choose(impression, name, choices)
    if isinstance(sheet, ScriptedSheet):
        answers = sheet.scripted_answers(person, ScriptedPage(page_form, page, before[-1], heard, answers))
    answers |= _attentive(page_form, person.rng)
    after = await doors.send(page_form, answers)
    if doors.step == "judge" and "_asked" in (again := doors.form("/judge/")).hidden:
        after = await doors.send(again, answers)  # the page asks once; keep both answers
    if doors.step == "judge" and doors.form("/judge/").hidden.get("_n") == page_form.hidden["_n"]:
        raise StepRefused(f"the answers were not accepted at {after.url.path} ({after.status_code})")


def _sheet_of(page: str) -> Sheet:
    """Return the sheet of a page of the step `judge`."""
    name = re.search(r' data-sheet="(\w+)"', page)
    assert name is not None, "the form names its sheet"
    return sheets.get(name[1])


async def quiz(person: ScriptedPerson) -> None:
    """Answer the quiz with the right answers hidden in the page."""
    page_form = person.doors.form("/quiz/")
    answers = {
        name: page_form.hidden.get(f"_right_{name}") or person.rng.choice(choices)
        for name, choices in page_form.choices.items()
    }
    after = await person.doors.send(page_form, answers)
    if person.doors.step == "quiz" and 'name="_attempt" value="2"' not in after.text:
        raise StepRefused(f"the quiz was not accepted at {after.url.path} ({after.status_code})")


async def practice(person: ScriptedPerson) -> None:
    """Answer a practice pair with the right answers hidden in the page."""
    page_form = person.doors.form("/practice/")
    right = dict(parse_qsl(page_form.hidden.get("_right", "")))
    answers = {name: right.get(name) or person.rng.choice(choices) for name, choices in page_form.choices.items()}
    after = await person.doors.send(page_form, answers)
    if person.doors.step == "practice" and "_pair" not in after.text:
        raise StepRefused(f"the practice answer was not accepted at {after.url.path} ({after.status_code})")


StepScript = Callable[[ScriptedPerson], Awaitable[None]]
STEP_SCRIPTS: dict[str, StepScript] = {
    "quiz": quiz,
    "questions": fill_form,
    "practice": practice,
    "chat": chat,
    "arena": arena,
    "picks": picks,
    "form": form,
    "judge": judge,
}


_MOST_PAGES = 1000
"""Maximum number of pages per participant; more would mean a redirect loop."""


@dataclass(frozen=True, slots=True)
class ScriptedVisit:
    """Scripted participant's work: answered messages, other pages, and its duration."""

    n_exchanges: int
    n_pages: int
    seconds: float = 0.0


class ScriptedParticipant(ScriptedPerson):
    """Scripted participant who completes all steps of a protocol."""

    async def play(self) -> ScriptedVisit:
        """Enter and complete every step.

        Raises:
            StepRefused: if a page did not let the participant through, or the bot failed.
        """
        await self.doors.enter()
        for n_pages in range(_MOST_PAGES):
            step = self.doors.step
            if step == "done":
                following = PageForm(str(self.doors.page.url), "/start/").fed(self.doors.page.text)
                if "_sitting" in following.hidden:  # a script does not wait for the next part
                    await self.doors.send(following, {})
                    continue
                return ScriptedVisit(self.n_exchanges, n_pages)
            if step not in STEP_SCRIPTS and step not in steps:
                page, known = self.doors.page, ", ".join(sorted(STEP_SCRIPTS))
                raise StepRefused(f"led to {page.url.path} ({page.status_code}), which is not one of the steps {known}")
            await STEP_SCRIPTS.get(step, fill_form)(self)
        raise StepRefused(f"no end after {_MOST_PAGES} pages; the last was {self.doors.page.url.path}")


async def rehearse(
    *,
    base_url: str,
    study_key: str,
    rehearsal_token: str,
    script: ScriptedTexts,
    n_people: int,
    seed: int,
    at_once: int = 8,
    on_played: Callable[[ScriptedVisit | Exception], None] = lambda _played: None,
) -> list[ScriptedVisit | Exception]:
    """Run `n_people` scripted participants through a study, `at_once` in parallel."""
    gate = asyncio.Semaphore(at_once)

    async def play_one(number: int) -> ScriptedVisit | Exception:
        async with gate:
            doors, began = StudyClient(base_url, study_key, {"rehearsal": rehearsal_token}), time.monotonic()
            played: ScriptedVisit | Exception
            try:
                visit = await ScriptedParticipant(
                    doors, lines=script.lines, comment=script.comment, seed=seed * 1_000_003 + number
                ).play()
                played = replace(visit, seconds=time.monotonic() - began)
            except (StepRefused, httpx.HTTPError, OSError) as error:
                played = StepRefused(str(error) or type(error).__name__, doors.step)
            finally:
                await doors.close()
        on_played(played)
        return played

    return list(await asyncio.gather(*(play_one(number) for number in range(n_people))))
