"""Recruitment links: parameters of the platforms, and the link back.

Mechanical Turk, Prolific, panels and one-time links.

The entry page creates nothing, so the parameters of its address are passed on in a signed hidden field of its form.
The platforms' parameter names are theirs; see the MTurk ExternalQuestion and Prolific integration documentation. A
panel's are settings of the study.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from django.core import signing

from chatbots.text import sanitise_id
from webapp.studies.models import Participant, Study, StudyVersion
from webapp.studies.privacy import consent_version
from webapp.studies.recruitment.links import LINK_PARAMETER, LINK_PLATFORM, link_read
from webapp.studies.recruitment.settings import submission_of
from webapp.studies.start_refusals import StartRefusal

_SALT = "confab.entry"
_MTURK = ("workerId", "assignmentId", "hitId", "turkSubmitTo")
_PROLIFIC = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")
_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
# The pages of Mechanical Turk, production and sandbox, that show a task in a frame: to workers, and to
# requesters who preview it.
MTURK_FRAMES = (
    "https://worker.mturk.com",
    "https://workersandbox.mturk.com",
    "https://requester.mturk.com",
    "https://requestersandbox.mturk.com",
    "https://www.mturk.com",
)
# Placeholders that a platform should have replaced by ids: `{{%PROLIFIC_PID%}}`, `${workerId}`, and as panels write
# them `{id}`, `[ID]`, `[%RID%]`, `%%id%%`, `<id>`.
_PLACEHOLDER = re.compile(r"\$?\{.*\}|\[.*\]|%%.*%%|<.*>")
# Allowed targets for a finished task; a link's address must not choose another one.
_MTURK_HOSTS = ("www.mturk.com", "workersandbox.mturk.com")
_VALUE_MAX_CHARS = 200

PLATFORM_NAMES = {"mturk": "Mechanical Turk", "prolific": "Prolific"}
"""Of the platforms that have a name; a panel may be any."""


@dataclass(frozen=True, slots=True)
class Recruitment:
    """Parameters of the link.

    Attributes:
        id_name, session_name: a panel's parameters for the ids of the participant and of the visit.
        problem: code of the reason why nobody new may begin by this link; empty if they may.
        rehearsal: token of a scripted participant.
        nonce: nonce of the entry form that carried them; empty before there is a form.
        consent: version of the texts on that form.
        language: that the link or the first page chose among the study's; empty: its own.
    """

    fields: dict[str, str] = field(default_factory=dict)
    id_name: str = ""
    session_name: str = ""
    problem: str = ""
    rehearsal: str = ""
    nonce: str = ""
    consent: str = ""
    language: str = ""

    @property
    def platform(self) -> str:
        """`mturk`, `prolific`, `links`, `panel` or nothing."""
        if self.fields.get("PROLIFIC_PID"):
            return "prolific"
        if self.fields.get("workerId") or self.fields.get("assignmentId"):
            return "mturk"
        if self.fields.get(LINK_PARAMETER) and not self.id_name:
            return LINK_PLATFORM
        return "panel" if self.fields.get(self.id_name) else ""

    @property
    def external_id(self) -> str:
        """The person's id on the platform; empty where it gave none."""
        names = ("PROLIFIC_PID", "workerId", self.id_name or LINK_PARAMETER)
        return next((self.fields[name] for name in names if self.fields.get(name)), "")

    @property
    def submission(self) -> str:
        """The platform's id of this visit; empty where it gave none."""
        return submission_of(self.fields, self.session_name or self.id_name)

    @property
    def is_preview(self) -> bool:
        """True if an MTurk worker only previews the task and has not accepted it."""
        return self.fields.get("assignmentId") == _PREVIEW

    @property
    def is_unfilled(self) -> bool:
        """True if the platform left a placeholder in place of an id, so that the link identifies nobody."""
        return any(_PLACEHOLDER.search(value) for value in self.fields.values())

    def problem_for(self, participant: Participant | None) -> str:
        """Return the code of the reason against a start; empty if allowed. Known participants may continue."""
        if self.is_unfilled:
            return StartRefusal.NO_IDS
        return "" if participant is not None or self.rehearsal else self.problem


def recruitment_read(study: Study, query: Mapping[str, str]) -> Recruitment:
    """Read the known parameters of an address; unknown and empty ones are dropped, long ones cut."""
    settings = study.values.recruitment
    is_panel = settings.platform == "panel"
    names = (*_MTURK, *_PROLIFIC, *(settings.parameters if is_panel else ()))
    # Links are pasted with spaces and unseen characters at their ends; a person is one, however the id is spelt.
    parameters = {name: sanitise_id(query.get(name, ""))[:_VALUE_MAX_CHARS].strip() for name in names}
    known = {name: value for name, value in parameters.items() if value}
    problem = ""
    if settings.platform == LINK_PLATFORM:
        number, problem = link_read(study, sanitise_id(query.get(LINK_PARAMETER, "")))
        known |= {LINK_PARAMETER: number} if number else {}
    rehearsal = sanitise_id(query.get("rehearsal", ""))
    chosen = query.get("lang", "")
    language = chosen if chosen in study.values.texts.languages else ""
    return _with_id_names(study, Recruitment(known, problem=problem, rehearsal=rehearsal, language=language))


def _with_id_names(study: Study, recruitment: Recruitment) -> Recruitment:
    """Return it with the names of a panel's id parameters, and with the problem if they are missing."""
    settings = study.values.recruitment
    if settings.platform == LINK_PLATFORM and not recruitment.fields.get(LINK_PARAMETER):
        return replace(recruitment, problem=recruitment.problem or StartRefusal.LINK_MISSING)
    if settings.platform == "prolific":
        # Confab could not pay anyone. Mechanical Turk's plain link has no id, and a code is pasted.
        return replace(recruitment, problem="" if recruitment.platform else StartRefusal.NO_IDS)
    if settings.platform != "panel":
        return recruitment
    with_names = replace(recruitment, id_name=settings.id_parameter, session_name=settings.session_parameter)
    # Without the id, Confab could not pay the participant.
    return replace(with_names, problem=StartRefusal.NO_IDS if with_names.id_name and not with_names.platform else "")


def recruitment_sign(study: Study, version: StudyVersion, recruitment: Recruitment) -> str:
    """Return the hidden field of the entry form: the link's parameters, and a nonce that identifies the form.

    Args:
        version: the study's version whose texts the form shows.
    """
    value = {
        "study": study.key,
        "fields": recruitment.fields,
        "rehearsal": recruitment.rehearsal,
        "nonce": recruitment.nonce or secrets.token_urlsafe(16),
        "consent": consent_version(version.values),
        "language": recruitment.language,
    }
    return signing.dumps(value, salt=_SALT, compress=True)


def recruitment_unsign(study: Study, text: str) -> Recruitment | None:
    """Return the recruitment that `recruitment_sign` signed; None if changed, or of another study."""
    try:
        value = signing.loads(text, salt=_SALT)
    except signing.BadSignature:
        return None
    if value["study"] != study.key:
        return None
    later = {name: value.get(name, "") for name in ("nonce", "consent", "language")}
    return _with_id_names(study, Recruitment(value["fields"], rehearsal=value["rehearsal"], **later))


def mturk_submit_url(participant: Participant) -> str:
    """Return the address for submitting a finished task; empty for an unknown host or another platform."""
    if participant.platform != "mturk":
        return ""
    try:
        to = urlsplit(participant.recruitment.get("turkSubmitTo", ""))
    except ValueError:  # for example "https://["
        return ""
    if to.scheme != "https" or to.netloc not in _MTURK_HOSTS:
        return ""
    return f"https://{to.netloc}/mturk/externalSubmit"


def platform_name(participant: Participant, study: Study) -> str:
    """Return the name of the participant's recruitment platform; empty if they came by themselves."""
    if participant.platform in PLATFORM_NAMES:
        return PLATFORM_NAMES[participant.platform]
    return "" if participant.platform else PLATFORM_NAMES.get(study.values.recruitment.platform, "")
