"""The phone beside the builder: which participant's page it shows, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import Promise

from webapp.studies.languages import LANGUAGES
from webapp.studies.models import Outcome, Study
from webapp.studies.protocols.base import StudyProtocol, places, protocols
from webapp.studies.selectors import steps_asked

THEMES = {"light": "Light", "dark": "Dark"}
# Steps that stand for several pages below one heading, by what those are called.
_TITLES: dict[str, str | Promise] = {
    "consent": "Agreeing",
    "instructions": "How it works",
    "quiz": "Quiz",
    "questions": "Questions before",
    "practice": "Practice",
    "judge": "Items",
}
_STATES = {"quiz": "missed"}
"""What an address calls the state in which a step is shown; of the others the outcome."""
# Where a participant reads what is edited; a field that stands nowhere alone leaves the phone as it is.
FIELD_STEPS = {
    **dict.fromkeys(
        (
            "title",
            "minutes",
            "payment",
            "organisation",
            "consent_points",
            "consent_text",
            "content_notice",
            "content_notice_ticked",
            "counts_typing",
            "typing_notice",
        ),
        "consent",
    ),
    "lets_report": "chat",
    "instructions_text": "instructions",
    "min_exchanges": "chat",
    "max_exchanges": "chat",
    "max_message_chars": "chat",
    "thanks_text": "done",
    **{f"{kind}_{outcome}": "done" for kind in ("code", "link") for outcome in Outcome.values},
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One page that can be shown: its own address, and the builder's with it in the phone."""

    title: str | Promise
    is_now: bool
    address: str
    href: str


@dataclass(frozen=True, slots=True)
class Preview:
    """Content of the phone in the preview.

    Attributes:
        tabs: one for each step in the participant's header.
        pages: pages of the step shown, where it has several.
        address: address of the page shown.
        title: title of the frame.
    """

    tabs: list[Choice]
    pages: list[Choice]
    address: str
    title: str
    theme: str
    themes: dict[str, str | Promise]
    language: str
    languages: dict[str, str]
    field_steps: dict[str, str]
    step: str
    outcome: str


def preview_of(study: Study, asked: Mapping[str, str], *, beside: str) -> Preview:
    """Return the phone for a page of the builder.

    Args:
        asked: the query of that page's address: `preview`, `outcome`, `theme` and `lang` choose what is shown.
        beside: name of the builder's step, which says what is shown where the address does not.
    """
    found = places(protocols.get(study.protocol).steps)
    has = steps_asked(study)
    work = [name for name in work_steps(protocols.get(study.protocol)) if name in has]
    first = {
        "checks": [one for one in has if one == "quiz"] or work,
        "bots": work[:1],
        "questions": work[-1:],
        "pay": has[-1:],
    }.get(beside) or has
    now = asked.get("preview", "")
    now = now if now in has else first[0]
    is_missed = asked.get("missed") == "1" and now == "quiz"
    outcome = asked.get("outcome", "")
    outcome = outcome if now == "done" and outcome in Outcome.values else ""
    language = asked.get("lang", "")
    look = {
        "theme": asked["theme"] if asked.get("theme") in THEMES else "light",
        **({"lang": language} if language in LANGUAGES else {}),
    }

    def choice(title: str | Promise, name: str, ended: str = "", *, is_now: bool) -> Choice:
        page = reverse("participant:preview", args=[study.key, name])
        more = {_STATES.get(name, "outcome"): ended} if ended else {}
        href = "?" + urlencode({"preview": name, **more, **look})
        address = f"{page}?{urlencode({**look, **more})}"
        return Choice(title, is_now, address, href)

    tabs, pages = [], []
    for place in found:
        here = [name for name in place.steps if name in has]
        if not here:
            continue
        tabs.append(choice(place.heading, here[0], is_now=now in here))
        if now in here and len(here) > 1:
            pages = [choice(_TITLES.get(n, n), n, is_now=n == now and not is_missed) for n in here]
            if "quiz" in here:
                missed = choice("Quiz, missed once", "quiz", "1", is_now=is_missed)
                pages.insert(here.index("quiz") + 1, missed)
    if now == "done":
        ended_so = outcome or Outcome.RATED
        pages = [choice(t, now, value, is_now=value == ended_so) for value, t in Outcome.choices]
    more = {"outcome": outcome} if outcome else {}
    if is_missed:
        more["missed"] = "1"
    page = reverse("participant:preview", args=[study.key, now])
    heading = next(place.heading for place in found if now in place.steps)
    return Preview(
        tabs=tabs,
        pages=pages,
        address=f"{page}?{urlencode({**look, **more})}",
        title=f"The participant's page: {heading}",
        theme=look["theme"],
        themes=dict(THEMES),
        language=look.get("lang", study.values.texts.language),
        languages=LANGUAGES,
        field_steps={name: where for name, where in FIELD_STEPS.items() if where in has},
        step=now,
        outcome=outcome,
    )


def work_steps(protocol: StudyProtocol) -> list[str]:
    """Return the steps between the first and the last place: what people come for, and questions about it."""
    return [name for place in places(protocol.steps)[1:-1] for name in place.steps]
