"""Settings of recruitment: platform, completion codes, links back, and pay.

Every outcome has its own code and, outside Prolific, its own link: `code_rated`, `link_rated`, … for every `Outcome`.
Prolific's addresses, Mechanical Turk's ExternalQuestion (which frames our page) and the origins that may embed a study
are here, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, quote, urlsplit
from xml.etree.ElementTree import Element, SubElement, tostring

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from pydantic import AfterValidator, Field, model_validator

from chatbots.type_descriptions import TypeDescription
from chatbots.validation import InputModel, Number

_COMPLETION_LINK = "https://app.prolific.com/submissions/complete?cc="
# Prolific fills in these placeholders.
_PLACEHOLDERS = "&".join(f"{name}={{{{%{name}%}}}}" for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"))
_CODE = re.compile(r"[A-Za-z0-9_-]{1,50}")


def is_prolific(address: str) -> bool:
    """Return True if a URL belongs to Prolific."""
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:  # for example "https://["
        return False
    return host in ("prolific.com", "prolific.co") or host.endswith((".prolific.com", ".prolific.co"))


def recruiting_link(participant_link: str) -> str:
    """Return the participant link for Prolific, with the placeholders it fills in."""
    return f"{participant_link}?{_PLACEHOLDERS}"


def completion_link(code: str) -> str:
    """Return the Prolific URL that accepts this completion code."""
    return _COMPLETION_LINK + quote(code, safe="")


def link_code(address: str) -> str:
    """Return the code in a Prolific completion link.

    Empty for other URLs and for a placeholder.
    """
    if not is_prolific(address):
        return ""
    code = parse_qs(urlsplit(address).query).get("cc", [""])[0].strip()
    return code if _CODE.fullmatch(code) else ""


def code_read(text: str) -> str:
    """Return the completion code in pasted text.

    The text is a code, or a Prolific link with one.

    Raises:
        ValueError: there is no code in it; the message is a sentence for the researcher.
    """
    text = text.strip()
    code = link_code(text) if "/" in text else text
    if text and not _CODE.fullmatch(code):
        raise ValueError(
            f"There is no completion code in “{text}”. Paste the code, for example C1A2B3C4, or Prolific's "
            f"whole link: {_COMPLETION_LINK}C1A2B3C4"
        )
    return code


# Amazon's current schema of this kind of question.
_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"


def external_question(participant_link: str) -> str:
    """Return CreateHIT's `Question` that frames the study.

    The frame has the window's height.
    """
    question = Element("ExternalQuestion", xmlns=_SCHEMA)
    SubElement(question, "ExternalURL").text = participant_link
    SubElement(question, "FrameHeight").text = "0"
    return tostring(question, encoding="unicode")


_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_REGISTRY = r"(ac|co|com|edu|go|gob|gov|gouv|ltd|me|ne|net|nom|or|org|plc|sch)\.[a-z]{2}\.?(:|$)"
_ORIGIN = re.compile(rf"https?://(\*\.(?!{_REGISTRY}){_LABEL}\.)?{_LABEL}(\.{_LABEL})*\.?(:\d{{1,5}})?", re.IGNORECASE)
"""Scheme, host and port.

`*.` stands before at least two labels, which are not a registry such as `co.uk`: a wider one would admit the sites of
strangers.
"""


def frame_origins(text: str) -> tuple[list[str], list[str]]:
    """Return the origins in a text, and the invalid words."""
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    origins = [word for word in words if _ORIGIN.fullmatch(word)]
    return origins, [word for word in words if word not in origins]


Platform = Literal["link", "prolific", "mturk", "panel", "links"]

FILLED_IN = ("code", "id", "session", "outcome", "conversation")
"""Placeholders available in every return link, in addition to stored parameters."""
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_.-]*)\}")
_NAMES = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*( +|$))*")
# Reserved: used by the entry page itself, or by platforms to identify participants.
_TAKEN = (
    *("t", "link", "rehearsal", "again"),
    *("workerId", "assignmentId", "hitId", "turkSubmitTo"),
    *("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"),
)


def _link(text: str) -> str:
    text = text.strip()
    if text:
        try:
            URLValidator(["http", "https"])(PLACEHOLDER.sub("x", text))
        except ValidationError:
            raise ValueError("it must be a link such as https://…") from None
    return text


def _parameter_names(text: str) -> str:
    text = " ".join(text.replace(",", " ").split())
    if not _NAMES.fullmatch(text):
        raise ValueError("it must be parameter names, such as psid, separated by spaces")
    if reserved := [name for name in text.split() if name in _TAKEN]:
        raise ValueError(f"it must not contain {reserved[0]}, which the entry page uses itself")
    return text


def _study_keys(text: str) -> str:
    keys = text.replace(",", " ").split()
    if wrong := [key for key in keys if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", key)]:
        raise ValueError(f"it must be study keys separated by spaces; {wrong[0]} is not a study key")
    return " ".join(keys)


StudyKeys = Annotated[str, Field(max_length=500), AfterValidator(_study_keys)]
Code = Annotated[str, Field(max_length=200), AfterValidator(code_read)]
Link = Annotated[str, Field(max_length=500), AfterValidator(_link)]
ParameterNames = Annotated[str, Field(max_length=200), AfterValidator(_parameter_names)]
Currency = Annotated[str, Field(pattern="^[A-Z]{3}$"), TypeDescription("a currency's three letters, such as GBP")]

# Stored by earlier releases, which supported only Prolific and one link.
_CODES_BEFORE = {
    "prolific_rated": "code_rated",
    "prolific_bot_failed": "code_bot_failed",
    "prolific_withdrawn": "code_withdrawn",
}


def submission_of(parameters: Mapping[str, str], panel_name: str) -> str:
    """Return a platform's id of the visit; empty if it sent none.

    Args:
        panel_name: name of a panel's parameter for it; without ids of visits, the parameter of the participant's
            id.
    """
    names = ("SESSION_ID", "assignmentId", "link", panel_name)
    return next((parameters[name] for name in names if parameters.get(name)), "")


class RecruitmentValues(InputModel):
    """Settings of recruitment: source, completion codes, and pay."""

    platform: Platform = Field(
        default="link",
        title="Recruitment platform",
        description="An open link, Prolific, Mechanical Turk, another panel, or one-time links.",
    )
    code_rated: Code = Field(
        default="",
        title="Code: done",
        description="The platform's code, or Prolific's completion link, for participants who completed everything.",
    )
    code_bot_failed: Code = Field(
        default="",
        title="Code: chatbot failed",
        description="For participants who ended early because the chatbot failed. Leave empty to use the code for "
        "“done”.",
    )
    code_screened_out: Code = Field(
        default="",
        title="Code: screened out",
        description="For participants whose answers before the task do not qualify them.",
    )
    code_failed_check: Code = Field(
        default="", title="Code: failed check", description="For participants who missed a check."
    )
    code_no_consent: Code = Field(
        default="", title="Code: did not agree", description="For participants who do not consent."
    )
    code_withdrawn: Code = Field(
        default="", title="Code: withdrawn", description="For participants who withdrew and had everything deleted."
    )
    code_late: Code = Field(
        default="", title="Code: too late", description="For participants who come back after the part has closed."
    )
    link_rated: Link = Field(
        default="",
        title="Return link: done",
        description=(
            "Where participants go at the end. {code}, {id}, {session}, {outcome}, {conversation} and every stored "
            "URL parameter are filled in. Prolific's links are made from the codes."
        ),
    )
    link_bot_failed: Link = Field(
        default="", title="Return link: chatbot failed", description="Leave empty to use the link for “done”."
    )
    link_screened_out: Link = Field(default="", title="Return link: screened out")
    link_failed_check: Link = Field(default="", title="Return link: failed check")
    link_no_consent: Link = Field(default="", title="Return link: did not agree")
    link_withdrawn: Link = Field(default="", title="Return link: withdrawn")
    link_late: Link = Field(default="", title="Return link: too late")
    id_parameter: ParameterNames = Field(
        default="id",
        title="Parameter with the participant's id",
        description="Name of the parameter in a panel's link that holds the participant's id.",
    )
    session_parameter: ParameterNames = Field(
        default="",
        title="Parameter with the visit's id",
        description="Name of the parameter in a panel's link that identifies the visit, if there is one.",
    )
    more_parameters: ParameterNames = Field(
        default="",
        title="Other parameters to store",
        description="Names of parameters in a panel's link, separated by spaces. Each can be used in a return link "
        "as {name}.",
    )
    auto_return: bool = Field(
        default=False,
        title="Return automatically",
        description="Participants are sent back ten seconds after the end, unless they choose to stay.",
    )
    frame_ancestors: str = Field(
        default="",
        max_length=300,
        title="Sites that can embed the study",
        description="Origins that can show the study in a frame, such as https://survey.example.org. Mechanical Turk "
        "always can.",
    )
    only_after_studies: StudyKeys = Field(
        default="",
        title="Only participants of these studies",
        description="Study keys, separated by spaces. Admits only participants who consented to one of these "
        "studies, recognised by their recruitment ID. Leave empty to admit everyone.",
    )
    never_after_studies: StudyKeys = Field(
        default="",
        title="No participants of these studies",
        description="Study keys, separated by spaces. Rejects participants who consented to one of these studies, "
        "recognised by their recruitment ID. Erased IDs are not recognised.",
    )
    least_width: int = Field(
        default=0,
        ge=0,
        le=4000,
        title="Minimum window width",
        description="In CSS pixels, for example 700 for more than a phone. The first page asks participants with a "
        "narrower window to widen it, or to open their link on another device. 0 for any width.",
    )
    needs_keyboard: bool = Field(
        default=False,
        title="Keyboard required",
        description="The first page asks participants whose device has only a touch screen to open their link on a "
        "computer.",
    )
    pay_each: Number | None = Field(
        default=None, ge=0, title="Pay per task", description="What a participant gets for one task."
    )
    pay_screened_out: Number | None = Field(
        default=None,
        ge=0,
        title="Pay if screened out",
        description="For the time of participants who are screened out. Leave empty if no pay is planned.",
    )
    pay_late: Number | None = Field(
        default=None,
        ge=0,
        title="Pay if too late",
        description="For participants who come back after a part has closed. Leave empty if no pay is planned.",
    )
    currency: Currency = Field(default="GBP", title="Currency", description="Three-letter code, such as GBP.")
    fee_share: Number = Field(
        default=0, ge=0, le=5, title="Platform fee", description="As a share of the pay: 0.33 adds 33 %."
    )
    pays_in_full: bool = Field(
        default=False,
        title="Promise full pay if the study fails",
        description="Tells participants who could not finish through no fault of theirs that they are paid in full. "
        "Has no effect in a study without pay.",
    )

    @model_validator(mode="before")
    @classmethod
    def _names_of_today(cls, values: Any) -> Any:
        """Convert values of earlier releases.

        They had codes under Prolific's name, and one link for all participants.
        """
        if not isinstance(values, dict) or not {*_CODES_BEFORE, "completion_url"} & values.keys():
            return values
        converted = {_CODES_BEFORE.get(name, name): value for name, value in values.items()}
        link = converted.pop("completion_url", "")
        by_prolific = isinstance(link, str) and is_prolific(link)
        if code := link_code(link) if by_prolific else "":
            converted["code_rated"] = converted.get("code_rated") or code
        elif link:
            converted.setdefault("link_rated", link)
        if by_prolific or any(converted.get(name) for name in _CODES_BEFORE.values()):
            converted.setdefault("platform", "prolific")
        return converted

    def code(self, outcome: str) -> str:
        """Return the platform's code for this outcome; empty if there is none."""
        outcome_code: str = getattr(self, f"code_{outcome}")
        # An early end that is not the participant's fault counts as complete.
        return outcome_code or (self.code_rated if outcome == "bot_failed" else "")

    def link(self, outcome: str) -> str:
        """Return the return link for this outcome with placeholders.

        Empty if there is none.
        """
        outcome_link: str = getattr(self, f"link_{outcome}")
        return outcome_link or (self.link_rated if outcome == "bot_failed" else "")

    @property
    def visit_parameter(self) -> str:
        """Name of the panel's parameter that identifies the visit.

        Empty for other platforms.
        """
        return (self.session_parameter or self.id_parameter) if self.platform == "panel" else ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the stored parameters of a panel's link."""
        names = f"{self.id_parameter} {self.session_parameter} {self.more_parameters}"
        return tuple(dict.fromkeys(names.split()))
