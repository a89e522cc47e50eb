"""People who choose their chatbot by a name, where the study lets them."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.builders import make_conversation, make_rating, make_study
from webapp.studies.models import Study, Task
from webapp.studies.selectors import participant_token

pytestmark = pytest.mark.django_db
NAMES = {"eliza": "Robin", "parrot": "Kim", "generic": "Sasha"}


def make_chosen(**fields: object) -> Study:
    return make_study(**{"bots": list(NAMES), "choice": "names", "bot_names": dict(NAMES), **fields})


def offered(page: str) -> dict[str, str]:
    """Return the numbers of the radio buttons by the names beside them."""
    found = re.findall(r'name="_chatbot" value="(\d+)"> <span dir="auto">([^<]+)</span>', page)
    return {name: number for number, name in found}


def form_of(page: str) -> dict[str, str]:
    return dict(re.findall(r'type="hidden" name="(_\w+)" value="([^"]*)"', page))


def start(client: Client, study: Study, name: str) -> str:
    """Open the link and start with the chatbot of this name. Returns the bot that was given."""
    page = client.get(f"/s/{study.key}/").content.decode()
    number = offered(page)[name]
    answer = client.post(f"/s/{study.key}/start/", {**form_of(page), "consent": "on", "_chatbot": number})
    assert answer.status_code == 302
    return Task.objects.latest("pk").bot_ids[0]


@pytest.mark.parametrize("name", NAMES.values())
def test_who_chooses_a_name_gets_its_bot(name: str) -> None:
    study = make_chosen()
    given = start(Client(), study, name)
    assert NAMES[given] == name
    assert Task.objects.get().drawn_by["chosen"] == "names"


def test_neutral_names_say_nothing_and_stand_for_other_bots_each_time() -> None:
    study = make_chosen(choice="neutral", bot_names={})
    page = Client().get("/s/s/").content.decode()
    assert set(offered(page)) == {"Chatbot 1", "Chatbot 2", "Chatbot 3"}
    assert not any(bot in page.lower() for bot in NAMES)
    given = {start(Client(), study, "Chatbot 1") for _ in range(12)}
    assert len(given) > 1


def test_without_a_preference_and_for_scripts_the_rule_draws() -> None:
    study = make_chosen()
    for _ in range(6):
        assert Client().post(f"/s/{study.key}/start/", {"consent": "on"}).status_code == 302
    assert Counter(task.bot_ids[0] for task in Task.objects.all()) == dict.fromkeys(NAMES, 2)
    assert not any("chosen" in task.drawn_by for task in Task.objects.all())


def test_only_what_is_free_is_offered_and_what_is_gone_by_then_is_said() -> None:
    study = make_chosen(bot_quotas={"parrot": 0, "eliza": 1})
    client = Client()
    page = client.get("/s/s/").content.decode()
    assert set(offered(page)) == {"Robin", "Sasha"}
    assert start(Client(), study, "Robin") == "eliza"
    late = client.post(
        "/s/s/start/", {**form_of(page), "consent": "on", "_chatbot": offered(page)["Robin"]}
    ).content.decode()
    assert "This chatbot is no longer available. Choose another one." in late
    assert set(offered(late)) == {"Sasha"}
    assert Task.objects.count() == 1


def test_who_comes_again_is_offered_whom_they_have_not_met() -> None:
    study = make_chosen()
    chat = make_conversation(study, n_exchanges=3)
    make_rating(chat)
    token = participant_token(chat.participant)
    study_page = Client().get(f"/s/{study.key}/?again&t={token}").content.decode()
    assert NAMES[chat.bot.bot_id] not in offered(study_page)


def test_a_study_that_gives_bots_itself_shows_no_choice_and_takes_none() -> None:
    study = make_study(bots=list(NAMES))
    page = Client().get("/s/s/").content.decode()
    assert "_chatbot" not in page
    Client().post("/s/s/start/", {**form_of(page), "consent": "on", "_chatbot": "1"})
    assert "chosen" not in Task.objects.get().drawn_by
    assert study.values.assignment.choice == "none"


@pytest.mark.parametrize(
    ("fields", "at", "words"),
    [
        ({"bot_names": {"eliza": "Robin"}}, "bot_names", "no name yet"),
        ({"bot_names": {**NAMES, "elisa": "Lou"}}, "bot_names", "none of the study's"),
        ({"bot_names": {**NAMES, "parrot": "Robin"}}, "bot_names", "the same name"),
        ({"bot_names": "eliza Robin"}, "bot_names", "a colon and a name"),
        ({"bots_in_a_row": 2}, "choice", "cannot choose"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_at_its_field(fields: dict[str, object], at: str, words: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        make_chosen(**fields)
    assert words in " ".join(wrong.value.message_dict[at])
