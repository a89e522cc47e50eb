"""Two participants who are partners in a chat, do what people do in any order, and are driven by one state machine.

After every act of one of them all that `test_flow.py` checks holds for both, the act has left the other's task as it
was, and what one wrote is what the other reads.
"""

import zlib
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest
from django.db.models import F
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from chatbots.bots.person import PersonBot
from chatbots.registry import bots
from tests.outside.flow import LINKS, InsideBrowser, stored, study_open
from tests.outside.test_flow import EXAMPLES, MOVES, SETTINGS, ParticipantMachine
from webapp.conversations.models import Conversation, PartnerSeat, Turn
from webapp.participant import consumers
from webapp.studies.models import Outcome, Study, Task

PERSON = "somebody"
SHORT: dict[str, Any] = {
    "bots": [PERSON, "eliza"],
    "disclosure": "before",
    "questions": [],
    "quiz_questions": [],
    "min_exchanges": 2,
    "max_exchanges": 4,
}
OFTENER = {**MOVES, "go_on": 9, "let_time_pass": 4, "withdraw": 2}


class PartnersMachine(ParticipantMachine):
    """Two participants who are paired when it begins; it acts for one of them, and then turns to the other."""

    def __init__(self, study: Study) -> None:
        self.numbers = count(1)
        super().__init__(study, self.next_query())
        self.meet_a_person()
        self.other = self.begin_another()
        self.meet_a_person()
        assert self.seat is not None
        assert self.seat.state == PartnerSeat.State.TAKEN

    def next_query(self) -> dict[str, str]:
        """Return the parameters of a participant who has not come before."""
        number = next(self.numbers)
        return LINKS["prolific"][1] | {"PROLIFIC_PID": f"p{number}", "SESSION_ID": f"se{number}"}

    def begin_another(self) -> dict[str, Any]:
        """Open the link as a new participant; what the machine knew of the one before comes back."""
        before = {name: getattr(self, name) for name in ("query", "browser", "page", "left", "checked", "stays_at_end")}
        self.query, self.left, self.checked, self.stays_at_end = self.next_query(), [], (), False
        self.enter(InsideBrowser())
        return before

    def meet_a_person(self) -> None:
        """Go on to the first chat with a person; participants who are given a bot are left in their chats."""
        while self.seat is None:
            if self.page.step == "chat":
                self.begin_another()
            self.go_on(0)
        self.heard()

    def turn_to_other(self) -> None:
        """Act for the other participant from now on."""
        before = {name: getattr(self, name) for name in self.other}
        vars(self).update(self.other)
        self.other = before

    @property
    def seat(self) -> PartnerSeat | None:
        """The seat of the page's chat; None on other pages and in chats with bots."""
        seats = PartnerSeat.objects.select_related("conversation", "partner__conversation")
        return seats.filter(pk__in=self.page.chats).first() if self.page.step == "chat" else None

    @property
    def is_waiting(self) -> bool:
        """True if the partner is to write, and has not."""
        seat = self.seat
        if seat is None or seat.conversation.due_turn is None or seat.conversation.due_error:
            return False
        return seat.given_turn != seat.conversation.due_turn

    def tasks(self) -> list[tuple[Any, ...]]:
        theirs = Task.objects.filter(participant__in=self.participants())
        return list(theirs.order_by("pk").values_list("pk", "state", "outcome", "completion_code"))

    @rule(move=st.sampled_from([name for name, n in OFTENER.items() for _ in range(n)]), pick=st.integers(0, 3))
    def act(self, move: str, pick: int) -> None:
        """Do something for one of them, and turn to the other, whose page is loaded and looks for its partner."""
        if move == "go_on" and self.is_waiting:
            self.turn_to_other()
        self.turn_to_other()
        tasks = self.tasks()
        self.turn_to_other()
        super().act(move, pick)
        self.the_database_has_what_is_shown()  # of the other one after the rule
        self.a_fresh_browser_resumes_at_the_same_step(stored(self.study))
        self.outcome_code_and_pay_agree()
        self.turn_to_other()
        assert self.tasks() == tasks
        if self.page.step == "chat":
            self.hear_of_partner()
            self.show(self.browser.open(self.page.address))

    def hear_of_partner(self) -> None:
        """Open the chat's page; whose partner left without a rating is offered the end with pay."""
        outs, seat = self.ways_out(), self.seat
        if seat is not None and seat.partner is not None and seat.conversation.state == Conversation.State.OPEN:
            state = seat.partner.conversation.state
            if state not in (Conversation.State.OPEN, Conversation.State.COMPLETED):
                can_swap = self.study.values.people.without_partner == "bot"
                assert outs == (("swap", "finish") if can_swap else ("finish",)), state

    def let_time_pass(self, pick: int) -> bool:
        """Be there for minutes in which the partner's page is closed, or is open and nothing is written."""
        if self.seat is None:
            return False
        minutes, is_closed = 2 + 2 * pick, pick % 2 == 0
        away = timedelta(minutes=minutes)
        seats = PartnerSeat.objects.filter(conversation__study=self.study)
        seats.update(seen_at=F("seen_at") - away, wait_until=F("wait_until") - away)
        Conversation.objects.filter(study=self.study).update(due_since=F("due_since") - away)
        if not is_closed:
            self.turn_to_other()
            self.heard()
            self.turn_to_other()
        is_waiting = self.is_waiting
        [heard] = self.heard()
        if is_waiting and (is_closed or minutes > 5):
            assert "finish" in heard.ways_out or heard.can_rate, (minutes, is_closed)
        self.show(self.browser.open(self.page.address))
        return True

    @invariant()
    def one_reads_what_the_other_wrote(self) -> None:
        for seat in PartnerSeat.objects.filter(conversation__study=self.study).exclude(partner=None):
            assert seat.partner is not None
            assert seat.partner.partner_id == seat.pk
            texts = Turn.objects.order_by("index").values_list("text", flat=True)
            said = list(texts.filter(conversation=seat.pk, speaker=Turn.Speaker.HUMAN))
            read = list(texts.filter(conversation=seat.partner_id, speaker=Turn.Speaker.BOT))
            if Task.objects.filter(slots__chat=seat.pk, outcome=Outcome.WITHDRAWN).exists():
                assert not any([*said, *read]), "withdrawn words are gone on both sides"
            else:
                assert read == said[: len(read)]
                assert len(said) - len(read) in (0, 1)


@pytest.fixture
def _person() -> Iterator[None]:
    bots.search()
    bots.put(PersonBot(name=PERSON))
    yield
    bots.discard(PERSON)


@pytest.mark.usefixtures("one_connection", "_person")
@pytest.mark.parametrize("without", ["bot", "pay"])
def test_two_partners_of(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.01)  # no host tells of its replies here
    study = study_open("chat", "prolific", {**SHORT, "without_partner": without})
    machine = seed(zlib.crc32(without.encode()))(partial(PartnersMachine, study))
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=max(1, EXAMPLES // 3)))
