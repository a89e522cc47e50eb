"""Settings of chats between people: disclosure, waiting, no partner."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from chatbots.validation import InputModel
from webapp.studies.protocol_settings import LongText


class People(InputModel):
    """Settings for chats with a person instead of a chatbot."""

    disclosure: Literal["none", "before", "afterwards"] = Field(
        default="none",
        title="Disclosure of human partners",
        description="A study with a bot of kind person needs one of the last two. Disclose on the last page only if "
        "your ethics approval allows it.",
        json_schema_extra={
            "choices": {
                "none": "No human partners",
                "before": "Before participants consent",
                "afterwards": "On the last page",
            }
        },
    )
    people_notice: LongText = Field(
        default=(
            "You may chat with another person instead of a chatbot. That person reads what you write in the chat, and "
            "nothing else about you."
        ),
        max_length=2000,
        title="Consent point about human partners",
        description="Added to the consent points if human partners are disclosed before participants consent.",
    )
    people_afterwards: LongText = Field(
        default=(
            "Your chat partner was a person, not a chatbot. We did not say so before, because it could have changed "
            "how you chat. If you do not want us to use your chat, withdraw it below or write to us."
        ),
        max_length=2000,
        title="Disclosure on the last page",
        description="Shown to participants who chatted with a person, if human partners are disclosed on the last "
        "page.",
    )
    wait_seconds: int = Field(
        default=60,
        ge=5,
        le=900,
        title="Maximum wait in seconds",
        description="Time that a participant waits for a partner, or for staff to take the chat.",
    )
    without_partner: Literal["bot", "pay"] = Field(
        default="bot",
        title="If no partner comes, or the partner leaves",
        description="The participant continues with a chatbot or ends, and is paid in either case.",
        json_schema_extra={"choices": {"bot": "Continue with a chatbot", "pay": "End, as if a chatbot failed"}},
    )

    @model_validator(mode="after")
    def _has_notice(self) -> People:
        name = {"before": "people_notice", "afterwards": "people_afterwards"}.get(self.disclosure)
        if name is not None and not getattr(self, name).strip():
            raise ValueError(f"{name} is empty; it must say that the partner may be a person, or was one")
        return self
