"""Prolific and Mechanical Turk as they behave towards a study: made for tests, they keep what they are sent.

Each answers the addresses that people are sent back to, so that a browser can be routed to it, and refuses what the
real one would: a code it does not know, an assignment that nobody accepted, a form without an answer.
"""

from dataclasses import dataclass, field
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit
from xml.etree.ElementTree import fromstring

_QUESTION = "{http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd}"


@dataclass
class Submission:
    """One person's place on Prolific."""

    person: str
    session: str
    status: str = "ACTIVE"
    code: str = ""


@dataclass
class FakeProlific:
    """One study on Prolific.

    Args:
        study_url: what the researcher pasted, with placeholders.
        actions: of each completion code the researcher made: the status that it leads to.
    """

    study_url: str
    actions: dict[str, str]
    submissions: dict[str, Submission] = field(default_factory=dict)
    HOST = "https://app.prolific.com"

    def reserve(self, person: str) -> str:
        """Give a person a place. Returns the link that Prolific opens for them."""
        session = f"session-{len(self.submissions) + 1}"
        self.submissions[session] = Submission(person, session)
        link = self.study_url
        for name, value in (("PROLIFIC_PID", person), ("STUDY_ID", "st"), ("SESSION_ID", session)):
            assert f"{{{{%{name}%}}}}" in link, f"nothing says who comes: {name}"
            link = link.replace(f"{{{{%{name}%}}}}", value)
        return link

    def answer(self, address: str, person: str) -> tuple[int, str]:
        """Answer the completion page that the person, who is signed in, opens: status and page."""
        parts = urlsplit(address)
        code = parse_qs(parts.query).get("cc", [""])[0]
        if not address.startswith(f"{self.HOST}/submissions/complete?"):
            return 404, "Not found."
        submissions = [submission for submission in self.submissions.values() if submission.person == person]
        active = [submission for submission in submissions if submission.status == "ACTIVE"]
        if not active:
            return 200, "You have no active submission."
        active[-1].code = code
        active[-1].status = self.actions.get(code, "AWAITING REVIEW: UNKNOWN CODE")
        return 200, f"Submission {active[-1].status}."


@dataclass
class Assignment:
    """One task of a worker on Mechanical Turk."""

    worker: str
    status: str = "Accepted"
    answers: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeMTurk:
    """One HIT on the sandbox of Mechanical Turk.

    Args:
        question: the ExternalQuestion that the researcher pasted.
    """

    question: str
    assignments: dict[str, Assignment] = field(default_factory=dict)
    HOST = "https://workersandbox.mturk.com"

    @property
    def link(self) -> str:
        """The page that the question shows."""
        result = fromstring(self.question)
        assert result.tag == f"{_QUESTION}ExternalQuestion", result.tag
        assert result.findtext(f"{_QUESTION}FrameHeight") is not None
        return result.findtext(f"{_QUESTION}ExternalURL") or ""

    def preview(self) -> str:
        """Return the address in the frame of somebody who has not accepted the HIT."""
        return self._with(assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE", hitId="hit")

    def accept(self, worker: str) -> str:
        """Give the worker an assignment. Returns the address in the frame."""
        assignment = f"assignment-{len(self.assignments) + 1}"
        self.assignments[assignment] = Assignment(worker)
        return self._with(assignmentId=assignment, hitId="hit", workerId=worker, turkSubmitTo=self.HOST)

    def page(self, address: str) -> str:
        """Return the worker's page with the task in its frame."""
        return f'<iframe src="{address.replace("&", "&amp;")}" width="1000" height="700"></iframe>'

    def submit(self, address: str, body: str) -> tuple[int, str]:
        """Take the form that the task sends: status and page."""
        if address != f"{self.HOST}/mturk/externalSubmit":
            return 404, "Not found."
        sent = dict(parse_qsl(body))
        assignment = self.assignments.get(sent.pop("assignmentId", ""))
        if assignment is None or assignment.status != "Accepted" or not sent:
            return 400, "There was a problem submitting your results for this HIT."
        assignment.status, assignment.answers = "Submitted", sent
        return 200, "Submitted."

    def _with(self, **parameters: str) -> str:
        parts = urlsplit(self.link)
        return urlunsplit(parts._replace(query=urlencode(parameters)))
