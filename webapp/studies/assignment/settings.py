"""Settings for assigning bots: duration of reservations, and quotas of bots."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel


def by_bot_text(value_by_bot: dict[str, Any]) -> str:
    """Return a value for each bot as editable lines “bot: value”."""
    return "\n".join(f"{bot_id}: {value}" for bot_id, value in value_by_bot.items())


def _numbers_by_bot(form_value: Any) -> Any:
    """Parse lines “bot: number” of a form.

    Values other than text are returned unchanged.
    """
    if not isinstance(form_value, str):
        return form_value
    number_by_bot: dict[str, Any] = {}
    for line in form_value.splitlines():
        if not line.strip():
            continue
        bot_id, _colon, value = (part.strip() for part in line.rpartition(":"))
        if not bot_id or not value.isascii() or not value.isdigit():
            raise ValueError(f"the line “{line.strip()}” must be a bot's id, a colon and a number")
        if bot_id in number_by_bot:
            raise ValueError(f"{bot_id} is listed twice; give each bot one number")
        number_by_bot[bot_id] = int(value)
    return number_by_bot


def _texts_by_bot(form_value: Any) -> Any:
    """Parse lines “bot: name” of a form.

    Values other than text are returned unchanged.
    """
    if not isinstance(form_value, str):
        return form_value
    name_by_bot: dict[str, str] = {}
    for line in form_value.splitlines():
        bot_id, colon, name = (part.strip() for part in line.partition(":"))
        if line.strip() and not (bot_id and colon and name):
            raise ValueError(f"the line “{line.strip()}” must be a bot's id, a colon and a name")
        if bot_id in name_by_bot:
            raise ValueError(f"{bot_id} is listed twice; give each bot one name")
        if bot_id:
            name_by_bot[bot_id] = name
    return name_by_bot


Quota = Annotated[int, Field(ge=0, le=2_000_000_000)]
QuotasByBot = Annotated[
    dict[str, Quota], BeforeValidator(_numbers_by_bot), TypeDescription("a number for each bot's id")
]


ShownName = Annotated[str, Field(min_length=1, max_length=40)]
NamesByBot = Annotated[
    dict[str, ShownName], BeforeValidator(_texts_by_bot), TypeDescription("a name for each bot's id")
]


def _name(text: str) -> str:
    if text != " ".join(text.split()):
        raise ValueError("it must be one line without spaces at the ends")
    return text


class Assignment(InputModel):
    """Settings for assigning bots to participants."""

    place_minutes: int = Field(
        default=120,
        ge=1,
        le=100_000,
        title="Reservation time in minutes",
        description=(
            "A participant who starts reserves a place with their chatbot. The reservation expires after this time. "
            "A participant who returns later can still finish, and counts too."
        ),
    )
    idle_minutes: int = Field(
        default=10,
        ge=0,
        le=100_000,
        title="Idle minutes before another visit",
        description=(
            "While a participant is chatting, the same recruitment ID cannot start again in another browser. A chat "
            "without activity for this time no longer prevents it."
        ),
    )
    max_per_bot: Quota = Field(
        default=0,
        title="Conversations wanted per chatbot",
        description="A chatbot with this many rated conversations and reservations gets no new participants. 0 for "
        "no limit.",
    )
    bot_quotas: QuotasByBot = Field(
        default={},
        title="Limits of single chatbots",
        description="One line per chatbot: its id, a colon, and the number of conversations wanted. 0 gives it no "
        "new participants.",
    )
    bots_in_a_row: int = Field(
        default=1,
        ge=1,
        le=20,
        title="Chatbots per participant, one after another",
        description=(
            "If more than one, the participant chats with each chatbot and rates it before the next. There is one "
            "end and one code, after the last."
        ),
    )
    bot_order: Literal["balanced", "random"] = Field(
        default="balanced",
        title="Order of the chatbots",
        description=(
            "Balanced: each chatbot comes in each position, and after each other one, equally often (a balanced "
            "Latin square). Random: drawn for each participant."
        ),
    )
    choice: Literal["none", "neutral", "names"] = Field(
        default="none",
        title="Participants choose their chatbot",
        description=(
            "None: the assignment rule chooses it. Neutral: participants choose among “Chatbot 1”, “Chatbot 2” and "
            "so on, numbered separately for each of them. Names: they choose among the names below. The rule assigns "
            "a chatbot to participants without a preference."
        ),
    )
    bot_names: NamesByBot = Field(
        default={},
        title="Names to choose from",
        description="One line per chatbot: its id, a colon, and the name that participants see.",
    )
    study_group: Annotated[str, AfterValidator(_name)] = Field(
        default="",
        max_length=60,
        title="Group of studies",
        description=(
            "Across studies with the same group name, no participant gets a chatbot twice. Participants are "
            "recognised by their recruitment ID."
        ),
    )

    @property
    def place_held_for(self) -> timedelta:
        """Time for which a place is reserved."""
        return timedelta(minutes=self.place_minutes)

    @property
    def idle_after(self) -> timedelta:
        """Time for which an inactive chat blocks the participant's other visits."""
        return timedelta(minutes=self.idle_minutes)

    def quota_of(self, bot_id: str) -> int | None:
        """Return the number of conversations wanted of a bot.

        None without a limit.
        """
        return self.bot_quotas.get(bot_id, self.max_per_bot or None)

    @property
    def has_quotas(self) -> bool:
        """True if any bot has a quota."""
        return bool(self.max_per_bot or self.bot_quotas)
