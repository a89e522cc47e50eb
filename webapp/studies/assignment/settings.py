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
    """Read lines “bot: number” of a form; return a value that is no text unchanged."""
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
            raise ValueError(f"{bot_id} stands there twice; each bot can have one number")
        number_by_bot[bot_id] = int(value)
    return number_by_bot


def _texts_by_bot(form_value: Any) -> Any:
    """Read lines “bot: name” of a form; return a value that is no text unchanged."""
    if not isinstance(form_value, str):
        return form_value
    name_by_bot: dict[str, str] = {}
    for line in form_value.splitlines():
        bot_id, colon, name = (part.strip() for part in line.partition(":"))
        if line.strip() and not (bot_id and colon and name):
            raise ValueError(f"the line “{line.strip()}” must be a bot's id, a colon and a name")
        if bot_id in name_by_bot:
            raise ValueError(f"{bot_id} stands there twice; each bot can have one name")
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
        raise ValueError("it must be one line without blanks around it")
    return text


class Assignment(InputModel):
    """Settings for assigning bots to participants."""

    place_minutes: int = Field(
        default=120,
        ge=1,
        le=100_000,
        title="Minutes that a place is held",
        description=(
            "A participant who starts reserves a place with their chatbot. The reservation expires after this time; "
            "a participant who returns later may still finish, and counts too."
        ),
    )
    idle_minutes: int = Field(
        default=10,
        ge=0,
        le=100_000,
        title="Minutes without a message until another visit may begin",
        description=(
            "While a participant writes, the same recruitment ID cannot start again in another browser. A chat "
            "without activity for this time no longer prevents it."
        ),
    )
    max_per_bot: Quota = Field(
        default=0,
        title="Conversations wanted of each chatbot",
        description="A chatbot with so many rated conversations and reserved places gets no new participants. "
        "0: no limit.",
    )
    bot_quotas: QuotasByBot = Field(
        default={},
        title="Chatbots with a number of their own",
        description="One line for each: the chatbot's id, a colon, and how many conversations are wanted of it; "
        "0 closes it.",
    )
    bots_in_a_row: int = Field(
        default=1,
        ge=1,
        le=20,
        title="Chatbots for each person, one after another",
        description=(
            "More than one: each person chats and rates, chats with the next one and rates, and has one end and one "
            "code after the last."
        ),
    )
    bot_order: Literal["balanced", "random"] = Field(
        default="balanced",
        title="In which order",
        description=(
            "Balanced: each chatbot stands in each place, and after each other one, equally often (a balanced Latin "
            "square). Random: drawn for each person."
        ),
    )
    choice: Literal["none", "neutral", "names"] = Field(
        default="none",
        title="People choose their chatbot",
        description=(
            "None: the rule gives it. Neutral: among “Chatbot 1”, “Chatbot 2” and so on, numbered separately for "
            "each participant. Names: among the names below. The rule assigns a chatbot to participants without a "
            "preference."
        ),
    )
    bot_names: NamesByBot = Field(
        default={},
        title="Names to choose among",
        description="One line for each: the chatbot's id, a colon, and the name that people see.",
    )
    study_group: Annotated[str, AfterValidator(_name)] = Field(
        default="",
        max_length=60,
        title="Group of studies",
        description=(
            "No participant gets a chatbot twice in all studies with the same name here. Participants are "
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
        """Return the number of conversations wanted of a bot; None without a limit."""
        return self.bot_quotas.get(bot_id, self.max_per_bot or None)

    @property
    def has_quotas(self) -> bool:
        """True if any bot has a quota."""
        return bool(self.max_per_bot or self.bot_quotas)
