"""A person as a study's bot: what must be said before it opens, and where it is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from chatbots.bots.base import BotError
from chatbots.bots.person import PersonBot
from chatbots.conversation import Conversation
from chatbots.registry import bots
from chatbots.validation import ValuesError
from tests.builders import make_conversation, make_study
from webapp.core.errors import Refused
from webapp.jobs.services.fits import fit_create
from webapp.jobs.services.selfplay import run_create
from webapp.studies.privacy import consent_texts, consent_version

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _person() -> Iterator[None]:
    bots.search()
    bots.put(PersonBot(name="somebody"))
    yield
    bots.discard("somebody")
    bots.discard("wizard")


def test_a_study_opens_once_it_says_how_people_learn_of_it() -> None:
    with pytest.raises(ValidationError, match="Choose whether this is disclosed before"):
        make_study(bots=["somebody", "eliza"])
    assert make_study(bots=["somebody", "eliza"], disclosure="before").pk
    assert make_study("draft", bots=["somebody"], state="draft").pk


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"protocol": "arena"}, "allows only chatbots"),
        (
            {"factors": [{"key": "f", "levels": [{"key": "a", "opening": "Hi!"}, {"key": "b", "topic": "Cats"}]}]},
            "who writes or answers the first message",
        ),
        ({"people_notice": "  "}, "people_notice is empty"),
        ({"wait_seconds": 4}, "wait_seconds"),
        ({"without_partner": "nothing"}, "without_partner"),
    ],
)
def test_settings_that_cannot_be_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises((ValidationError, ValuesError), match=words):
        make_study(bots=["somebody", "eliza"], disclosure="before", **fields)


def test_an_opening_without_people_is_fine() -> None:
    levels = [{"key": "a", "opening": "Hi!", "bots": ["eliza"]}, {"key": "b", "topic": "Cats"}]
    assert make_study(bots=["somebody", "eliza"], disclosure="before", factors=[{"key": "f", "levels": levels}]).pk


def test_participants_agree_to_a_person_only_where_they_learn_of_it_before() -> None:
    plain, before = make_study(), make_study("before", disclosure="before")
    after = make_study("after", disclosure="afterwards")
    assert "another person" in consent_texts(before.values)["consent_points"]
    assert "another person" not in consent_texts(after.values)["consent_points"]
    assert consent_version(after.values) == consent_version(plain.values) != consent_version(before.values)


def test_a_person_replies_to_nobody_else() -> None:
    with pytest.raises(BotError, match="somebody is a person"):
        bots.get("somebody").answer([Conversation("c")])  # type: ignore[attr-defined]
    with pytest.raises(Refused, match="somebody is a person, who cannot take part in self-play; name bots only"):
        run_create(bots=["eliza", "somebody"], enqueue=False)


@pytest.mark.parametrize(("with_people", "left_out"), [(False, ["somebody"]), (True, [])])
def test_the_hybrid_metric_is_fitted_without_people(with_people: bool, left_out: list[str]) -> None:
    study = make_study(bots=["somebody", "eliza", "parrot"], disclosure="before")
    for _ in range(3):
        make_conversation(study)
    fit = fit_create(study=study, with_people=with_people, enqueue=False)
    assert fit.request["exclude_bots"] == left_out


def test_a_study_opens_only_if_somebody_can_continue_the_chat() -> None:
    bots.put(PersonBot(name="wizard", by="staff"))
    with pytest.raises(ValidationError, match="No chatbot can continue the chat if no partner joins"):
        make_study(bots=["wizard"], disclosure="before")
    assert make_study("pay", bots=["wizard"], disclosure="before", without_partner="pay").pk
    levels = [{"key": "a", "bots": ["eliza"]}, {"key": "b", "bots": ["wizard"]}]
    with pytest.raises(ValidationError, match="to every condition"):
        make_study(
            "levels",
            bots=["wizard", "eliza"],
            disclosure="before",
            factors=[{"key": "f", "levels": [{**level, "topic": level["key"]} for level in levels]}],
        )
