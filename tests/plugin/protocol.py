"""A study protocol."""

from __future__ import annotations

from chatbots import Identity
from webapp.studies.protocols.base import Draw, SlotPlan, Step, StudyProtocol, TaskPlan, register_protocol


@register_protocol
class SmallTalk(StudyProtocol):
    name = "small-talk"
    title = "Small talk"
    description = "Talk a little, and judge it."
    gives = "bots"
    settings = ("chat",)
    identity = Identity("small-talk", "1")
    steps = (
        Step("consent", "Welcome"),
        Step("instructions", "Welcome"),
        Step("chat", "Small talk"),
        Step("form", "Judge"),
        Step("done", "Judge"),
    )

    def next_task(self, draw: Draw) -> TaskPlan:
        [bot] = draw.bots()
        return TaskPlan("chat", (SlotPlan(bot=bot),))
