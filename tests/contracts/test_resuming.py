"""Between every two steps of every protocol the task is open, and another browser goes on at the same step.

Each study is played through the doors of this process by a scripted participant with a platform's ids. After every page
somebody comes by the same link in a browser that is new, and opens what the page leads to.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections

from tests.contracts.test_rehearsals import LINES, PAGES, InsideDoors, opened
from webapp.conversations.models import Conversation
from webapp.core.database import in_database
from webapp.participant import consumers
from webapp.participant.simulated import ScriptedParticipant, steps
from webapp.ratings.models import Rating
from webapp.studies.models import Study, Task
from webapp.studies.protocols.base import protocols
from webapp.studies.selectors import rehearsal_token
from webapp.studies.versions import study_edit

BY_LINK = {"PROLIFIC_PID": "p1", "STUDY_ID": "st1", "SESSION_ID": "se1"}
SEVERAL = {
    "two in a row": ("chat", {"bots_in_a_row": 2}),
    "three in a row": ("chat", {"bots_in_a_row": 3, "bots": ["eliza", "parrot", "generic"]}),
    "two comparisons": ("arena", {"n_comparisons": 2, "bots": ["eliza", "parrot", "generic"]}),
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in protocols.names()},
    **SEVERAL,
}


def stored(key: str) -> list[object]:
    """Return everything that leading somebody on may not change."""
    tasks = Task.objects.filter(participant__study__key=key).order_by("pk")
    chats = Conversation.objects.filter(study__key=key).order_by("created_at")
    ratings = Rating.objects.filter(task__participant__study__key=key).order_by("pk")
    return [
        *tasks.values_list("pk", "state", "outcome", "completion_code", "ended_at"),
        *chats.values_list("pk", "state", "ended_at", "slot", "n_exchanges"),
        *ratings.values_list("pk", "answers", "other_answers"),
    ]


class Interrupted(InsideDoors):
    """The doors of somebody whose every page is also come to by a browser that knows nothing of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.steps: list[str] = []

    async def enter(self) -> None:
        await super().enter()
        await self._resumed()

    async def open(self, address: str) -> Any:
        page = await super().open(address)
        await self._resumed()
        return page

    async def send(self, form: Any, values: Any) -> Any:
        page = await super().send(form, values)
        await self._resumed()
        return page

    async def _resumed(self) -> None:
        here = (self.study_key, self.page.url.path)
        before = await in_database(stored)(self.study_key)
        [task] = await in_database(list)(
            Task.objects.filter(participant__study__key=self.study_key).values_list(
                "state", "outcome", "completion_code"
            )
        )
        self.steps.append(self.step)
        if self.step == "done":
            assert task[:2] == ("completed", "rated"), here
        else:
            assert task == ("open", "", None), here
        elsewhere = InsideDoors(self.base_url, self.study_key, self.query)
        try:
            if self.step == "done":
                link = f"/s/{self.study_key}/"
                assert task[2] in (await elsewhere._ask("GET", link, params=self.query)).text, here
            else:
                await elsewhere.enter()
                # A chat that is not rated yet is gone on with.
                assert elsewhere.page.url.path == here[1].replace("/rate/", "/"), here
        finally:
            await elsewhere.close()
        assert await in_database(stored)(self.study_key) == before, here


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("case", CASES)
async def test_a_task_is_open_until_its_end_and_goes_on_in_another_browser(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "LOOK_UP_AFTER_S", 0.02)  # no host tells of its replies here
    monkeypatch.setattr(steps, "_ATTENTIVE", 1.0)  # else one in twenty misses a check
    protocol, settings = CASES[case]
    study = await in_database(prepared)(protocol, settings)
    query = {**BY_LINK, "rehearsal": await in_database(rehearsal_token)(study)}
    doors = Interrupted("http://testserver", study.key, query)
    await ScriptedParticipant(doors, lines=LINES, seed=1).play()
    await doors.close()
    assert doors.steps[-1] == "done"
    kinds = {"chat": "form", "arena": "arena"}
    n = settings.get("bots_in_a_row") or settings.get("n_comparisons") or 1
    assert doors.steps.count(kinds.get(protocol, "judge")) >= n
    PAGES.submit(connections.close_all).result()


def prepared(protocol: str, settings: dict[str, Any]) -> Study:
    """Make the protocol's example with checks, and with these settings."""
    study = opened(protocol)
    return study_edit(study=study, **settings) if settings else study
