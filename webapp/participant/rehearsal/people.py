"""A scripted participant, who goes from step to step, and many of them side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from webapp.participant.rehearsal.doors import DoorClosed, OutsideDoors
from webapp.participant.rehearsal.person import Person
from webapp.participant.rehearsal.scripts import Script
from webapp.participant.rehearsal.ways import WAYS

_MOST_PAGES = 1000
"""Most pages of one participant: with more, they go round in circles."""


@dataclass(frozen=True, slots=True)
class Played:
    """Work of a scripted participant: messages that were answered, and pages of other steps."""

    n_exchanges: int
    n_pages: int


class ScriptedParticipant(Person):
    """Goes the whole way of a protocol."""

    async def play(self) -> Played:
        """Enter and take one step after the other until the end.

        Raises:
            DoorClosed: if a page did not let the participant through, or the bot failed.
        """
        await self.doors.enter()
        for n_pages in range(_MOST_PAGES):
            step = self.doors.step
            if step == "done":
                return Played(self.n_exchanges, n_pages)
            if step not in WAYS:
                at, known = self.doors.page, ", ".join(sorted(WAYS))
                raise DoorClosed(
                    f"led to {at.url.path} ({at.status_code}), which is none of the steps {known}"
                )
            await WAYS[step](self)
        raise DoorClosed(
            f"no end after {_MOST_PAGES} pages; the last was {self.doors.page.url.path}"
        )


async def rehearse(
    *,
    base_url: str,
    study_key: str,
    rehearsal_token: str,
    script: Script,
    n_people: int,
    seed: int,
    at_once: int = 8,
    on_played: Callable[[Played | Exception], None] = lambda _played: None,
) -> list[Played | Exception]:
    """Send `n_people` scripted participants through a study, `at_once` side by side."""
    gate = asyncio.Semaphore(at_once)

    async def one(number: int) -> Played | Exception:
        async with gate:
            doors = OutsideDoors(base_url, study_key, {"rehearsal": rehearsal_token})
            try:
                played: Played | Exception = await ScriptedParticipant(
                    doors,
                    lines=script.lines,
                    comment=script.comment,
                    seed=seed * 1_000_003 + number,
                ).play()
            except (DoorClosed, httpx.HTTPError, OSError) as error:
                played = error
            finally:
                await doors.close()
        on_played(played)
        return played

    return list(await asyncio.gather(*(one(number) for number in range(n_people))))
