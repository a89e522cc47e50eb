"""A participant of every protocol who does what people do, in any order, driven by a state machine.

After every act the database has what the page shows, and outcome, code and pay agree. After every second one and at the
end, a fresh browser with the same recruitment ids resumes at the same step. `CONFAB_FLOW_EXAMPLES` sets the number
of participants of each case.
"""

import os
import zlib
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.db.models import F, QuerySet
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from chatbots.registry import bots
from tests.builders import FACTORS
from tests.outside.browser import Answers, Form, Page
from tests.outside.flow import LINKS, VISIT_PARAMETERS, Heard, InsideBrowser, filled, stored, study_open
from tests.webapp.participant.test_chat_images import BOTS as SEEING
from tests.webapp.participant.test_chat_images import AlsoSeeing, Seeing, picture
from webapp.conversations.models import ChatImage, Conversation, Turn
from webapp.participant import consumers
from webapp.pay.submission_search import codes_shown
from webapp.pay.submissions import INSIDE, submissions_of
from webapp.studies.messages import MOST_WAITING
from webapp.studies.models import Outcome, Participant, ParticipantMessage, Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.recruitment.completion import ending_of
from webapp.studies.selectors import sitting_next

EXAMPLES = int(os.environ.get("CONFAB_FLOW_EXAMPLES", "2"))
SHRINKS = "CONFAB_FLOW_EXAMPLES" in os.environ
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=12,
    phases=[Phase.generate, *([Phase.shrink] if SHRINKS else [])],
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in protocols.names()},
    "two bots in a row": ("chat", {"bots_in_a_row": 2}),
    "three bots in a row": ("chat", {"bots_in_a_row": 3}),
    "two bots in a row with conditions": ("chat", {"bots_in_a_row": 2, "factors": FACTORS}),
    "pairs with conditions": ("arena", {"factors": FACTORS}),
    "limits of time": ("chat", {"least_minutes": 2, "most_minutes": 4}),
    "pairs with limits of time": ("arena", {"least_minutes": 2, "most_minutes": 4}),
    "parts": ("chat", {"parts": [{"key": "a"}, {"key": "b", "after_days": {"least": 0}}]}),
    "marks during the chat": ("marked_chat", {"marked_when": "during"}),
    "three languages": ("chat", {"languages": ["en", "de", "ar"]}),
    "traces": ("chat", {"trace": "folded"}),
    "images": ("chat", {"images": True, "bots": SEEING}),
}
MOVES = {
    "go_on": 7,
    "leave_out": 1,
    "miss": 2,
    "double_click": 2,
    "go_back": 2,
    "look_back": 1,
    "come_back": 2,
    "return_to_old_browser": 1,
    "continue_on_another_device": 1,
    "come_by_another_visit": 1,
    "break_the_bot": 1,
    "let_time_pass": 2,
    "write_to_the_researchers": 1,
    "send_an_image": 3,
    "give_up": 3,
    "withdraw": 1,
    "decline": 1,
}
"""Acts of participants, and how often each is chosen; one that is not possible goes on instead."""
STEPS = {"quiz", "questions", "practice", "chat", "form", "arena", "picks", "judge"}
TALKS = ("chat", "arena", "picks")
PAID = (Outcome.RATED, Outcome.BOT_FAILED)


class ParticipantMachine(RuleBasedStateMachine):
    """One participant, in a browser that may be left for another one at any time."""

    def __init__(self, study: Study, query: dict[str, str]) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.study, self.query = study, query
        self.left: list[InsideBrowser] = []
        self.checked: tuple[Any, ...] = ()
        self.n_checked = 0
        self.stays_at_end = False
        self.enter(InsideBrowser())

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)

    def show(self, page: Page, *refusals: int) -> None:
        assert page.status in (200, *refusals), (page.status, page.address)
        self.page = page

    def enter(self, browser: InsideBrowser) -> None:
        """Open the link in this browser."""
        self.browser = browser
        self.show(browser.open(f"/s/{self.study.key}/", self.query))

    def open(self, ending: str) -> bool:
        """Follow the page's link to such an address; False if it has none."""
        link = next((link for link in self.page.links if ending in link), None)
        if link is not None:
            self.show(self.browser.open(link))
        return link is not None

    def send(self, ending: str, answers: Answers) -> bool:
        """Send the page's form for such an address; False if it has none."""
        form = self.page.form(ending)
        if form is not None:
            self.show(self.browser.post(form, answers), 409)
        return form is not None

    def participants(self) -> QuerySet[Participant]:
        """Return the rows of whom the link names, at most one."""
        theirs = Participant.objects.filter(platform__in=LINKS, platform_ids__external_id__in=self.query.values())
        return theirs.filter(study=self.study)

    def task(self) -> Task | None:
        """Return the newest task."""
        return Task.objects.filter(participant__in=self.participants()).order_by("-created_at", "-pk").first()

    @rule(move=st.sampled_from([name for name, n in MOVES.items() for _ in range(n)]), pick=st.integers(0, 3))
    def act(self, move: str, pick: int) -> None:
        if move == "go_on" or getattr(self, move)(pick) is False:
            move = "go_on"
            self.go_on(pick)
        else:
            self.stays_at_end = False
        note(f"{move}: {self.page.step or self.page.outcome or 'another page'} at {self.page.address}")

    def go_on(self, pick: int) -> None:
        """Do what the page asks."""
        step = self.page.step
        if step == "entry":
            self.choose_a_language(pick)
            self.send("/start/", {"consent": "on"})
        elif step in TALKS and self.is_talking(pick):
            pass
        elif step == "chat":
            self.send("/end/", {}) or self.show(self.browser.open(self.page.main["data-rate"]))
        elif step in STEPS:
            self.send(self.ending, filled(self.form, pick))
        elif self.page.outcome in PAID and self.part_is_due():
            self.come_for_the_next_part()
        elif (self.page.outcome != Outcome.NO_CONSENT or not self.open("again=1")) and not self.stays_at_end:
            self.enter(self.browser)
            self.stays_at_end = self.page.outcome != ""  # nothing changes when the link is opened again and again

    def part_is_due(self) -> bool:
        """Return True if the study has another part, which is open."""
        person = self.participants().first()
        return person is not None and person.withdrawn_at is None and sitting_next(self.study, person) is not None

    def come_for_the_next_part(self) -> None:
        """Open the platform's link of the next visit."""
        self.query = {
            name: f"{value}-next" if name in VISIT_PARAMETERS else value for name, value in self.query.items()
        }
        self.enter(self.browser)

    @property
    def ending(self) -> str:
        return "/rate/" if self.page.step == "form" else f"/{self.page.step}/"

    @property
    def form(self) -> Form:
        form = self.page.form(self.ending)
        assert form is not None, self.page.address
        return form

    def heard(self) -> list[Heard]:
        """Return what the sockets of the page's chats say when they open."""
        return [self.browser.chat(chat) for chat in self.page.chats]

    def ways_out(self) -> tuple[str, ...]:
        """Return the buttons after a failed reply of the page's chats."""
        return next((one.ways_out for one in self.heard() if one.ways_out), ())

    def is_talking(self, pick: int) -> bool:
        """Do what a chat asks for before it may be rated; False if nothing is left to do."""
        if (asked := self.page.form("/answer/")) is not None:
            return self.send("/answer/", filled(asked, 0))
        heard = self.heard()
        can_rate = all(one.can_rate for one in heard)
        has_failed = any(one.ways_out for one in heard)
        if can_rate and not has_failed and pick < 3:
            return False
        if can_rate and has_failed and self.page.step == "chat" and pick < 2:
            return False
        if not self.write():
            self.give_up(pick)
        return True

    def write(self, *, fails: bool = False) -> bool:
        """Write to every chat of the page, or try again, and load the page as its script does.

        Args:
            fails: let the first bot's reply fail.

        Returns:
            False if a reply failed too often.
        """
        self.pick_reply()
        failed = [chat for chat, one in zip(self.page.chats, self.heard(), strict=True) if one.ways_out]
        if failed and "retry" not in self.ways_out():
            return False
        self.browser.is_newest_sent = False
        for chat in failed or self.page.chats:
            message = {"type": "message", "client_id": str(uuid4()), "text": f"Hello {uuid4()}."}
            frames = [{"type": "retry"}] if failed else [message, message]  # a second click
            heard = self.browser.chat(chat, *frames, fails=fails and chat == self.page.chats[0])
            if (reply := heard.last("reply")) is not None:
                assert bool(reply.get("trace")) == (self.study.values.chat.trace != "hidden")
                votes = {"type": "vote", "turn": reply["turn"], "value": 1}
                assert self.browser.chat(chat, votes).last("vote") == votes
                if self.page.main.get("data-marks") == "all":
                    marks = {"type": "marks", "turn": reply["turn"], "marks": ["asks"]}
                    assert self.browser.chat(chat, marks).last("marks") == marks
        if not fails:
            self.pick_reply()
        self.show(self.browser.open(self.page.address))
        return True

    def pick_reply(self) -> None:
        """Pick a reply where one is to be picked; where the other one failed, the chat goes on with this one."""
        for chat in self.page.chats if self.page.step == "picks" else ():
            [*_before, last] = self.browser.chat(chat).last("history")["turns"] or [{"speaker": "human"}]
            if last["speaker"] == "bot" and "goes_on" not in last:
                picked = self.browser.chat(chat, {"type": "pick", "turn": last["turn"]}).last("pick", "error")
                assert picked == {"type": "pick", "turn": last["turn"], "goes_on": True}
                return

    def break_the_bot(self, pick: int) -> bool:
        return self.page.step in TALKS and self.write(fails=True)

    def let_time_pass(self, pick: int) -> bool:
        """Be away for some minutes where the study limits the time of a chat."""
        if self.page.step not in ("chat", "arena") or not self.study.values.chat.most_minutes:
            return False
        turns = Turn.objects.filter(conversation__study=self.study)
        turns.update(created_at=F("created_at") - timedelta(minutes=1 + pick))
        self.show(self.browser.open(self.page.address))
        return True

    def write_to_the_researchers(self, pick: int) -> bool:
        """Write from the page's dialog, which changes nothing of the task."""
        form = self.page.form("/messages/")
        if form is None:
            return False
        messages = ParticipantMessage.objects.filter(participant__in=self.participants())
        before, known = stored(self.study), messages.count()
        page = self.browser.post(form, {"text": f"Message {uuid4()}"})
        assert page.status == (200 if known < MOST_WAITING else 400), page.address
        assert messages.count() == min(known + 1, MOST_WAITING)
        assert stored(self.study) == before
        return True

    def choose_a_language(self, pick: int) -> None:
        """Follow a link of the first page to another language, if it has any."""
        if links := [link for link in self.page.links if "lang=" in link]:
            self.show(self.browser.open(links[pick % len(links)]))

    def send_an_image(self, pick: int) -> bool:
        """Send an image with a message where the study takes them; what the chat refuses is not stored with a turn."""
        if self.page.step != "chat" or not self.study.values.chat.images or self.ways_out():
            return False
        [chat] = self.page.chats
        stored = self.browser.upload(chat, picture())
        assert stored.status_code == 201, stored.content
        image = {"id": stored.json()["id"], "description": "A red field"}
        message = {"type": "message", "client_id": str(uuid4()), "text": "", "image": image}
        told = self.browser.chat(chat, message, fails=False).last("turn", "error")
        assert told is not None
        is_taken = told["type"] == "turn"
        assert is_taken or told["code"] in ("closed", "check_due", "waiting_for_reply"), told
        assert ChatImage.objects.filter(pk=image["id"], turn__isnull=False).exists() == is_taken
        self.show(self.browser.open(self.page.address))
        return True

    def give_up(self, pick: int) -> bool:
        """Take another bot, or end the task with credit, after a failure."""
        if self.page.step not in TALKS:
            return False
        if not self.ways_out():
            self.write(fails=True)
        return self.ways_out() != () and self.send("/swap/" if pick % 2 else "/finish/", {})

    def leave_out(self, pick: int) -> bool:
        """Send the page's form without an answer: nothing is stored, and it is asked again."""
        ending = "/start/" if self.page.step == "entry" else self.ending
        if self.page.step == "chat" or self.page.form(ending) is None:
            return False
        before, place = stored(self.study), self.page.place
        self.send(ending, {})
        task = self.task()
        if place.step != "entry" or task is None or not task.outcome:
            assert self.page.place.step == place.step, (place, self.page.address)
        assert stored(self.study) == before, place
        return True

    def miss(self, pick: int) -> bool:
        """Miss everything that has a right answer, and some miss it at the second attempt too."""
        step = self.page.step
        if step not in STEPS - {"chat"} or (step in ("arena", "picks") and self.is_talking(0)):
            return False
        for _attempt in range(1 + pick // 2):
            if self.page.step == step:
                self.send(self.ending, filled(self.form, pick, wrong=True))
        return True

    def double_click(self, pick: int) -> bool:
        """Send a form that was just sent again: that changes nothing."""
        if not self.browser.is_newest_sent:
            return False
        before = stored(self.study)
        self.show(self.browser.send(*self.browser.sent[-1]), 404, 409, 410)
        assert stored(self.study) == before, self.browser.sent[-1][0].action
        return True

    def go_back(self, pick: int) -> bool:
        """Send an older form again, by the browser's Back: what has ended stays as it ended."""
        older = self.browser.sent[:-1]
        if not older:
            return False
        before = self.ended()
        self.show(self.browser.send(*older[-1 - pick % len(older)]), 404, 409, 410)
        assert self.ended()[: len(before)] == before, self.page.address
        return True

    def ended(self) -> list[tuple[Any, ...]]:
        """Return the tasks that are over for good."""
        tasks = Task.objects.filter(participant__in=self.participants()).exclude(outcome__in=("", Outcome.NO_CONSENT))
        return list(tasks.order_by("pk").values_list("pk", "outcome", "told", "completion_code", "ended_at"))

    def look_back(self, pick: int) -> None:
        """Load an earlier page again: that changes nothing."""
        before = stored(self.study)
        self.show(self.browser.open(self.browser.visited[-1 - pick % len(self.browser.visited)]), 404, 409, 410)
        assert stored(self.study) == before, self.page.address

    def come_back(self, pick: int) -> None:
        """Leave, and open the link in another browser."""
        self.left.append(self.browser)
        self.enter(InsideBrowser())

    def return_to_old_browser(self, pick: int) -> bool:
        if not self.left:
            return False
        self.left.append(self.browser)
        self.enter(self.left.pop(pick % (len(self.left) - 1)))
        return True

    def continue_on_another_device(self, pick: int) -> bool:
        """Continue by a link for another device; the earlier one is told so."""
        before, address = self.page.place, self.page.address
        is_saved = self.page.is_saved_answer
        if self.page.step not in STEPS or not self.open("/elsewhere/"):
            return False
        self.show(self.browser.post(self.page.forms[0], {}))
        link = self.page.text.split('value="http')[1].split('"')[0]
        browser = InsideBrowser()
        form = browser.open(f"http{link}").forms[0]
        left, self.browser = self.browser, browser
        self.show(browser.post(form, {}))
        assert is_saved or self.page.place == before, (before, self.page.address)
        assert left.open(address).status == 409
        self.left.append(left)
        return True

    def come_by_another_visit(self, pick: int) -> bool:
        """Open the platform's link of another visit while a task is open: it starts none."""
        task = self.task()
        if task is None or task.state != Task.State.OPEN:
            return False
        before = stored(self.study)
        other = InsideBrowser()
        query = {name: f"{value}-2" if name in VISIT_PARAMETERS else value for name, value in self.query.items()}
        start = other.open(f"/s/{self.study.key}/", query).form("/start/")
        if start is not None:
            assert other.send(start, {"consent": "on"}).status == 409
        assert stored(self.study) == before
        return True

    def withdraw(self, pick: int) -> bool:
        """Withdraw by the chat's button, or by the page on which it has to be confirmed."""
        if pick == 0 and self.send("/withdraw/", {}):
            return True
        if not self.open("/withdraw/"):
            return False
        if pick != 1 and (asked := next((form for form in self.page.forms if "confirm" in form.boxes), None)):
            self.show(self.browser.post(asked, {"confirm": "on"}))
        return True

    def decline(self, pick: int) -> bool:
        return self.send("/decline/", {})

    @invariant()
    def all_agree(self) -> None:
        """Check page, database, other browsers and pay whenever one of the first two has changed."""
        rows = stored(self.study)
        state = self.page.path, self.page.place, self.page.outcome, self.page.code, rows
        if state == self.checked:
            return
        self.the_database_has_what_is_shown()
        self.pages_speak_the_chosen_language()
        self.no_image_outlives_a_withdrawal()
        self.outcome_code_and_pay_agree()
        self.n_checked += 1
        if self.n_checked % 2 or self.page.outcome:  # two requests each: at every second change, and at the end
            self.a_fresh_browser_resumes_at_the_same_step(rows)
        self.checked = state

    def the_database_has_what_is_shown(self) -> None:
        task, page = self.task(), self.page
        if page.outcome:
            match page.path.strip("/").split("/"):  # it may be the last page of an earlier task
                case ["task", number, "done"]:
                    task = Task.objects.get(public_id=number)
                case ["chat", number, "done"]:
                    task = Task.objects.get(slots__chat=number)
            assert task is not None
            ending = ending_of(task)
            assert (ending.outcome, ending.code) == (page.outcome, page.code), page.address
        elif page.step in STEPS:
            assert (task.state, task.outcome, task.completion_code) == (Task.State.OPEN, "", None), page.address
        elif page.step == "entry":
            assert task is None or not task.outcome or task.outcome == Outcome.NO_CONSENT or self.part_is_due()

    def pages_speak_the_chosen_language(self) -> None:
        person = self.participants().first()
        if person is not None and person.language and self.page.step in STEPS:
            assert f'<html lang="{person.language}' in self.page.text, (person.language, self.page.address)

    def no_image_outlives_a_withdrawal(self) -> None:
        gone = Conversation.objects.filter(participant__in=self.participants(), state="withdrawn")
        assert not ChatImage.objects.filter(conversation__in=gone).exists()

    def a_fresh_browser_resumes_at_the_same_step(self, before: dict[str, list[Any]]) -> None:
        """Open the link in another browser.

        Args:
            before: the stored rows, which that does not change.
        """
        task = self.task()
        assert self.participants().count() <= 1
        browser = InsideBrowser()
        page = browser.open(f"/s/{self.study.key}/", self.query)
        if task is not None and task.state == Task.State.OPEN:
            start = page.form("/start/")
            assert start is not None, page.address
            page = browser.send(start, {"consent": "on"})
            if self.page.is_saved_answer:
                assert page.step == self.page.step
            elif self.page.step in STEPS:
                assert page.place == self.page.place
            else:
                assert page.step in STEPS
        elif task is not None and page.step == "entry" and self.part_is_due():
            assert task.outcome in PAID, task.outcome
        elif task is not None and (ending := ending_of(task)) is not None:
            assert (page.outcome, page.code) == (ending.outcome, ending.code)
        else:
            assert page.step == "entry"
        assert stored(self.study) == before, page.address

    def outcome_code_and_pay_agree(self) -> None:
        task = self.task()
        visits = [one for one in submissions_of(self.study).all if one.external_id in self.query.values()]
        if task is None:
            assert not visits
            return
        [visit] = [visit for visit in visits if visit.key.submission == task.submission]
        theirs = Task.objects.filter(participant__in=self.participants())
        assert len(visits) == len(set(theirs.values_list("submission")))
        outcome = task.outcome or INSIDE
        assert visit.key.submission in self.query.values() or self.part_is_due()
        assert (visit.outcome, visit.earns) == (outcome, outcome in PAID)
        if task.outcome:
            code = (ending_of(task) or task).code
            assert (visit.shown_code, codes_shown([visit])[visit.key]) == (code, code)
            assert bool(code) or task.outcome in (Outcome.NO_CONSENT, Outcome.WITHDRAWN)


@pytest.fixture
def _seeing(tmp_path: Path, settings: Any) -> Iterator[None]:
    """Register bots that take images, and keep images in a folder of the test's own."""
    folder = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path}}
    settings.STORAGES = {**settings.STORAGES, "images": folder}
    bots.search()
    for bot in (Seeing(), AlsoSeeing()):
        bots.put(bot)
    yield
    for name in SEEING:
        bots.discard(name)


@pytest.mark.usefixtures("one_connection", "_seeing")
@pytest.mark.parametrize("case", CASES)
def test_a_participant_of(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.01)  # no host tells of its replies here
    protocol, changed = CASES[case]
    platform = [*LINKS][[*CASES].index(case) % len(LINKS)]
    study = study_open(protocol, platform, changed)
    machine = seed(zlib.crc32(case.encode()))(partial(ParticipantMachine, study, LINKS[platform][1]))
    run_state_machine_as_test(machine, settings=SETTINGS)
