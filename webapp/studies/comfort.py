"""Settings that protect participants: a content notice, and a way to report a reply."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from chatbots.outside import Values


def lines(text: str) -> str:
    """End lines by a line feed alone: a browser's form ends them in another way, and that makes no other text."""
    return text.replace("\r\n", "\n")


Text = Annotated[str, AfterValidator(lines)]
"""A text of several lines."""


class Comfort(Values):
    """Settings of the content notice and of reporting replies."""

    content_notice: Text = Field(
        default="",
        max_length=2000,
        title="Content notice",
        description="Such as “Chatbots may say hurtful things.” It stands in a frame of its own before people agree, "
        "and is part of what they agree to. Empty: none.",
    )
    content_notice_ticked: bool = Field(
        default=True,
        title="The notice has a box of its own",
        description="Nobody can begin without ticking that they have read the content notice.",
    )
    lets_report: bool = Field(
        default=True,
        title="People can report a reply",
        description="Beside every reply of a chatbot stands “Report”. You see the reports on the page Reports.",
    )

    @property
    def notice_must_be_ticked(self) -> bool:
        """True if there is a notice that participants must tick before they begin."""
        return bool(self.content_notice.strip()) and self.content_notice_ticked
