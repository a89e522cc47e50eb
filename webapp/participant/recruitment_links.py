"""Recruitment links: the platforms' parameters, and return links.

They cover Mechanical Turk, Prolific, panels and one-time links. The entry page creates nothing, so its parameters are
passed on in a signed hidden field of its form. Names of parameters are the platforms' own; see the MTurk
ExternalQuestion and Prolific integration documentation. Those of a panel are settings of the study.
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
# Pages of Mechanical Turk, production and sandbox, that frame a task: for workers, and for requesters who preview it.
MTURK_FRAMES = (
    "https://worker.mturk.com",
    "https://workersandbox.mturk.com",
    "https://requester.mturk.com",
    "https://requestersandbox.mturk.com",
    "https://www.mturk.com",
)
# Placeholders that a platform should have replaced by ids: `{{%PROLIFIC_PID%}}`, `${workerId}`, and in panels'
# notations `{id}`, `[ID]`, `[%RID%]`, `%%id%%`, `<id>`.
_PLACEHOLDER = re.compile(r"\$?\{.*\}|\[.*\]|%%.*%%|<.*>")
# Allowed targets for a finished task; an address in a link must not choose another one.
_MTURK_HOSTS = ("www.mturk.com", "workersandbox.mturk.com")
_VALUE_MAX_CHARS = 200
_IDS = ("workerId", "assignmentId", "PROLIFIC_PID", "SESSION_ID")
"""Platforms' ids of participants and visits."""
_RUNNING_NUMBER = re.compile(r"\d{1,9}")

PLATFORM_NAMES = {"mturk": "Mechanical Turk", "prolific": "Prolific"}
"""Names of the platforms; a panel may be any."""


@dataclass(frozen=True, slots=True)
class Recruitment:
    """Parameters of the link.

    Attributes:
        id_name, session_name: a panel's parameters for the ids of the participant and of the visit.
        problem: code of the reason why new participants cannot start with this link; empty if they can.
        rehearsal: token of a scripted participant.
        nonce: nonce of the entry form that carried them; empty before there is a form.
        consent: version of the texts on that form.
        language: language chosen by the link or on the first page; empty: the study's own.
        is_guessable: True for the running number of a survey that frames the study; it never opens a participant's
            chat or end in another browser.
    """

    fields: dict[str, str] = field(default_factory=dict)
    id_name: str = ""
    session_name: str = ""
    problem: str = ""
    rehearsal: str = ""
    nonce: str = ""
    consent: str = ""
    language: str = ""
    is_guessable: bool = False

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
        """The participant's id on the platform; empty without one."""
        names = ("PROLIFIC_PID", "workerId", self.id_name or LINK_PARAMETER)
        return next((self.fields[name] for name in names if self.fields.get(name)), "")

    @property
    def submission(self) -> str:
        """The platform's id of this visit; empty without one, or if anyone could guess it."""
        return "" if self.is_guessable else submission_of(self.fields, self.session_name or self.id_name)

    @property
    def is_preview(self) -> bool:
        """True if an MTurk worker only previews the task."""
        return self.fields.get("assignmentId") == _PREVIEW

    @property
    def is_unfilled(self) -> bool:
        """True if the platform left a placeholder unfilled.

        The link then identifies nobody.
        """
        return any(_PLACEHOLDER.search(value) for value in self.fields.values())

    def problem_for(self, participant: Participant | None) -> str:
        """Return the code of the reason against a start.

        Empty if starting is possible. Known participants can always continue.
        """
        if self.is_unfilled:
            return StartRefusal.NO_IDS
        return "" if participant is not None or self.rehearsal else self.problem


def recruitment_read(study: Study, query: Mapping[str, str]) -> Recruitment:
    """Parse the known parameters of an address.

    Unknown and empty ones are dropped, long ones cut. A long id is dropped with the problem `id_too_long`: cut ones
    could be equal.
    """
    settings = study.values.recruitment
    is_panel = settings.platform == "panel"
    names = (*_MTURK, *_PROLIFIC, *(settings.parameters if is_panel else ()))
    # Links are pasted with spaces and invisible characters at their ends; the id still identifies one participant.
    parameters = {name: sanitise_id(query.get(name, "")) for name in names}
    panel_ids = (settings.id_parameter, settings.session_parameter) if is_panel else ()
    too_long = [name for name in (*_IDS, *panel_ids) if len(parameters.get(name, "")) > _VALUE_MAX_CHARS]
    known = {
        name: value[:_VALUE_MAX_CHARS].strip() for name, value in parameters.items() if value and name not in too_long
    }
    problem = ""
    if settings.platform == LINK_PLATFORM:
        number, problem = link_read(study, sanitise_id(query.get(LINK_PARAMETER, "")))
        known |= {LINK_PARAMETER: number} if number else {}
    rehearsal = sanitise_id(query.get("rehearsal", ""))
    chosen = query.get("lang", "")
    language = chosen if chosen in study.values.texts.languages else ""
    recruitment = _with_id_names(study, Recruitment(known, problem=problem, rehearsal=rehearsal, language=language))
    return replace(recruitment, problem=StartRefusal.ID_TOO_LONG) if too_long else recruitment


def _with_id_names(study: Study, recruitment: Recruitment) -> Recruitment:
    """Return it with the names of a panel's id parameters.

    If they are missing, it has the problem.
    """
    settings = study.values.recruitment
    if settings.platform == LINK_PLATFORM and not recruitment.fields.get(LINK_PARAMETER):
        return replace(recruitment, problem=recruitment.problem or StartRefusal.LINK_MISSING)
    if settings.platform == "prolific":
        # Confab could not pay participants. Mechanical Turk's plain link has no id; a code is pasted instead.
        return replace(recruitment, problem="" if recruitment.platform else StartRefusal.NO_IDS)
    if settings.platform != "panel":
        return recruitment
    with_names = replace(recruitment, id_name=settings.id_parameter, session_name=settings.session_parameter)
    if settings.frame_ancestors:
        ids = filter(None, (with_names.external_id, with_names.submission))
        with_names = replace(with_names, is_guessable=all(map(_RUNNING_NUMBER.fullmatch, ids)))
    # Without the id, Confab could not pay the participant.
    return replace(with_names, problem=StartRefusal.NO_IDS if with_names.id_name and not with_names.platform else "")


def recruitment_sign(study: Study, version: StudyVersion, recruitment: Recruitment) -> str:
    """Return the hidden field of the entry form.

    It has the link's parameters, and a nonce that identifies the form.

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
    """Return the recruitment signed by `recruitment_sign`.

    None if it was changed, or belongs to another study.
    """
    try:
        value = signing.loads(text, salt=_SALT)
    except signing.BadSignature:
        return None
    if value["study"] != study.key:
        return None
    later = {name: value.get(name, "") for name in ("nonce", "consent", "language")}
    return _with_id_names(study, Recruitment(value["fields"], rehearsal=value["rehearsal"], **later))


def mturk_submit_url(participant: Participant) -> str:
    """Return the address to submit a finished task.

    Empty for an unknown host or another platform.
    """
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
    """Return the name of the participant's recruitment platform.

    Empty without one.
    """
    if participant.platform in PLATFORM_NAMES:
        return PLATFORM_NAMES[participant.platform]
    return "" if participant.platform else PLATFORM_NAMES.get(study.values.recruitment.platform, "")
