"""Test of a study's bots: one reply from each, then a rehearsal if it is free."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic import Field

from chatbots import Conversation
from chatbots.bots.base import BotError
from chatbots.text import sanitise
from chatbots.validation import InputModel, Many
from webapp.bots.selectors import bot_name
from webapp.bots.services import bot_answered
from webapp.conversations.reply_pipeline import TEST_MESSAGE
from webapp.core.errors import Refused
from webapp.jobs.kinds.base import JobKind, ShardPlan, ShardWork, bots_loaded, register_kind
from webapp.jobs.models import Job
from webapp.jobs.services.jobs import job_create

KIND = "bot_test"
_TEXT_KEPT = 500


class BotTestParams(InputModel):
    """Parameters: bots to test, and the rehearsal that follows if all of them reply.

    Attributes:
        people: number of scripted participants of the rehearsal; 0 for none.
        url: address of the server for them.
    """

    bots: Many[str] = ()
    people: int = Field(default=0, ge=0)
    url: str = Field(default="", max_length=500)


@register_kind
class BotTest(JobKind[Job, BotTestParams]):
    """Job that requests one reply from each bot.

    The result has the replies and their seconds. A bot that does not reply fails the job with the reason.
    """

    name = KIND
    title = _("Test of the bots")
    queue = "gpu"
    Payload = BotTestParams

    def plan(self, job: Job, params: BotTestParams) -> Iterable[ShardPlan]:
        return [ShardPlan({"bot": bot_id}) for bot_id in params.bots]

    def slice(self, work: ShardWork[Job, BotTestParams]) -> dict[str, Any]:
        from chatbots.serving import reply

        bot_id = work.shard["bot"]
        work.beat(note=f"Waiting for {bot_name(bot_id)}", now=True)
        began = time.monotonic()
        try:
            [bot] = bots_loaded([bot_id])
            conversation = Conversation(id="trial").with_turn("human", TEST_MESSAGE)
            [answer] = reply(bot, [conversation], timeout_s=settings.CONFAB_REPLY_TIMEOUT_S)
        except BotError as error:
            raise Refused("bot_failed", f"{bot_name(bot_id)} did not reply: {error}") from None
        if answer.text is None:
            raise Refused("bot_failed", f"{bot_name(bot_id)} did not reply: {answer.error}")
        seconds = round(time.monotonic() - began, 1)
        bot_answered(bot_id=bot_id, seconds=seconds)
        return {"bot": bot_id, "seconds": seconds, "text": sanitise(answer.text, _TEXT_KEPT)}

    def finish(self, work: ShardWork[Job, BotTestParams], results: Any) -> dict[str, Any]:
        return {"bots": list(results)}

    def describe_result(self, job: Job, result: Any) -> list[str]:
        sentences = [
            f"{bot_name(bot['bot'])} replied “{bot['text']}” after {bot['seconds']:g} s." for bot in result["bots"]
        ]
        return sentences or ["There was no bot to test."]

    def follow_up(self, job: Job) -> None:
        params = BotTestParams.model_validate(job.payload)
        if params.people:
            job_create(
                kind="rehearsal",
                payload={"people": params.people, "url": params.url},
                study=job.study,
                created_by=job.created_by,
            )
