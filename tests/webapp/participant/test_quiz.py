"""Before the task: the quiz, practice pairs with known answers, and choosing a chatbot by its name."""

import re
from collections import Counter

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.builders import (
    QUIZ,
    TRAINING_PAIR,
    make_annotated,
    make_conversation,
    make_pairwise,
    make_participant,
    make_rating,
    make_study,
)
from tests.webapp.participant.conftest import post, shown, started
from webapp.conversations.models import Conversation
from webapp.core.errors import Refused
from webapp.participant.services import quiz_answer
from webapp.participant.simulated.client import PageForm
from webapp.studies.models import Participant, QuizAttempt, Study, Task, TrainingAnswer
from webapp.studies.pre_task import practice_answer, practice_due, quiz_due
from webapp.studies.privacy import participants_erase
from webapp.studies.selectors import participant_token, study_refusal
from webapp.studies.services import task_open
from webapp.studies.versions import study_edit

pytestmark = pytest.mark.django_db


RIGHT = {"quiz_1": "Five", "quiz_2": "A computer program"}
WRONG = {**RIGHT, "quiz_2": "A person"}


def words(page) -> str:
    """Return what a page says, without its tags."""
    return " ".join(re.sub("<[^>]+>", " ", shown(page)).split())


def sent(browser: Client, address: str, **answers: str) -> str:
    """Send the form as the page has it; the address that it leads to."""
    form = PageForm(address, "/quiz/")
    form.feed(browser.get(address).content.decode())
    answered = post(browser, address, **form.hidden, **answers)
    assert answered.status_code == 302, shown(answered)[:2000]
    return answered.url


def test_a_miss_is_explained_and_a_second_try_passes(browser: Client) -> None:
    make_study(quiz_questions=QUIZ, screened_out_pay="£0.14", questions=[_age()])
    address = started(browser, "s")
    task = Task.objects.get()
    assert address == f"/task/{task.public_id}/quiz/"
    chat = f"/chat/{Conversation.objects.get().pk}/"
    for later in (chat, f"{chat}rate/", address.replace("quiz", "questions")):
        assert browser.get(later).url == address
    page = shown(browser.get(address))
    assert "2 short questions first" in page
    assert "Reminder" not in page
    missing = shown(post(browser, address, quiz_1="Five", _attempt="1", _quiz=_due().quiz))
    assert "1 answer is missing." in missing
    assert not QuizAttempt.objects.exists()
    assert sent(browser, address, **WRONG) == address
    page = words(browser.get(address))
    assert "1 answer was not right. You have one more try. Your other answer is kept." in page
    assert "1. How many messages do you write at least? Five Correct." in page
    assert "Not quite. Look at point 2 above and choose again." in page
    assert "the study ends here, and you are paid £0.14 for your time" in page
    html = browser.get(address).content.decode()
    assert html.count("<mark>") == 1
    assert "<mark>Talk about anything you like" in html
    assert 'name="quiz_1"' not in html
    assert sent(browser, address, quiz_2="A computer program").endswith("/questions/")
    assert [attempt.is_right for attempt in QuizAttempt.objects.all()] == [False, True]
    assert browser.get(address).url.endswith("/questions/")


def test_a_second_miss_ends_the_task_and_its_chat_as_screened_out(browser: Client) -> None:
    study = make_study(quiz_questions=QUIZ, screened_out_pay="£0.14", code_screened_out="OUT1")
    address = started(browser, "s")
    sent(browser, address, **WRONG)
    done = sent(browser, address, **WRONG)
    task, chat = Task.objects.get(), Conversation.objects.get()
    assert (task.state, task.outcome) == ("ended", "screened_out")
    assert (chat.state, done) == ("ended", f"/chat/{chat.pk}/done/")
    page = shown(browser.get(done))
    assert "OUT1" in page
    assert "You are paid £0.14 for your time." in page
    refusal = study_refusal(study, task.participant)
    assert refusal.code == "not_again"


def test_what_is_sent_twice_is_one_attempt_and_goes_with_its_person() -> None:
    study = make_study(quiz_questions=QUIZ)
    task = task_open(participant=make_participant(study))
    due = quiz_due(task.participant, study.version)
    for _time in range(3):
        assert not quiz_answer(task=task, quiz=due.quiz, attempt=1, answers=["Five", "Both"])
    assert QuizAttempt.objects.count() == 1
    with pytest.raises(Refused, match="not the current step"):
        quiz_answer(task=task, quiz="another", attempt=2, answers=["Five", "Both"])
    # What was right stays right, whatever a second form says of it.
    assert quiz_answer(task=task, quiz=due.quiz, attempt=2, answers=["Two", RIGHT["quiz_2"]])
    study_edit(study=study, quiz_questions=[{**QUIZ[0], "why": "Five is the least."}, QUIZ[1]])
    study.refresh_from_db()
    assert quiz_due(task.participant, study.version) is None, "the same questions"
    removed = participants_erase(participants=Participant.objects.all())
    assert removed["quiz_attempts"] == 2
    assert not QuizAttempt.objects.exists()


def test_it_comes_before_items_and_scripted_people_alone_are_told(browser: Client) -> None:
    study = make_annotated("a", quiz_questions=QUIZ)
    pages = []
    for is_synthetic in (False, True):
        task = task_open(participant=make_participant(study, is_synthetic=is_synthetic))
        query = f"?t={participant_token(task.participant)}"
        assert "/quiz/" in browser.get(f"/task/{task.public_id}/judge/{query}").url
        pages.append(browser.get(f"/task/{task.public_id}/quiz/{query}").content.decode())
    assert "_right" not in pages[0]
    assert 'name="_right_quiz_2" value="A computer program"' in pages[1]


def _age() -> dict[str, str]:
    return {"key": "age", "title": "How old are you?", "kind": "text"}


def _due():
    task = Task.objects.get()
    due = quiz_due(task.participant, task.version)
    assert due is not None
    return due


PRACTISED = {"quality": "a", "fluency": "same", "relatedness": "a", "empathy": "b"}
UNPRACTISED = {**PRACTISED, "quality": "b"}
SECOND_PAIR = {**TRAINING_PAIR, "first": "He is a dog.", "answers": {"quality": "second"}}


def practised(browser: Client, address: str, **answers: str) -> str:
    """Send the form of the practice page as the browser has it; the address that it leads to."""
    task = Task.objects.get()
    due = practice_due(task.participant, task.version)
    fields = {"_pair": due.pair.digest, "_attempt": str(due.attempt)}
    answered = post(browser, address, **fields, **answers)
    assert answered.status_code == 302, shown(answered)[:2000]
    return answered.url


def test_practice_comes_first_and_leads_to_the_task_once_all_is_right(browser: Client) -> None:
    make_pairwise("a", training_pairs=[TRAINING_PAIR, SECOND_PAIR])
    address = started(browser, "a")
    task = Task.objects.get()
    assert address == f"/task/{task.public_id}/practice/"
    judging = address.replace("practice", "judge")
    assert browser.get(judging).url == address
    page = shown(browser.get(address))
    assert "Practice 1 of 2" in page
    assert "Oh no. How long did you have him?" in page
    assert "asks about the loss" not in page, "why is told afterwards"
    assert practised(browser, address, **PRACTISED) == address
    assert "Practice 2 of 2" in shown(browser.get(address))
    assert practised(browser, address, **{**PRACTISED, "quality": "b"}) == judging
    assert "Comparison 1 of 3" in shown(browser.get(judging))
    assert browser.get(address).url == judging


def test_one_miss_is_explained_and_tried_once_more(browser: Client) -> None:
    make_pairwise("a", training_pairs=[TRAINING_PAIR])
    address = started(browser, "a")
    assert practised(browser, address, **UNPRACTISED) == address
    page = shown(browser.get(address))
    assert "Not quite. Read why below, then try once more." in page
    assert "asks about the loss" in page
    assert page.count("Not quite. Choose again.") == 1
    assert "If it is wrong again, the study ends here." in page
    assert practised(browser, address, **PRACTISED).endswith("/judge/")


def test_a_second_miss_ends_the_task_as_screened_out(browser: Client) -> None:
    study = make_pairwise("a", training_pairs=[TRAINING_PAIR])
    address = started(browser, "a")
    practised(browser, address, **UNPRACTISED)
    assert practised(browser, address, **UNPRACTISED) == address.replace("practice", "done")
    task = Task.objects.get()
    assert (task.state, task.outcome) == ("ended", "screened_out")
    assert browser.get(address).url.endswith("/done/")
    refusal = study_refusal(study, task.participant)
    assert refusal.code == "not_again"
    with pytest.raises(Refused):
        task_open(participant=task.participant)


def test_what_is_sent_twice_is_one_attempt() -> None:
    study = make_pairwise("a", training_pairs=[TRAINING_PAIR])
    task = task_open(participant=make_participant(study))
    due = practice_due(task.participant, study.version)
    assert due is not None
    for _time in range(3):
        assert not practice_answer(task=task, attempt=1, pair=due.pair.digest, answers={"quality": -1, "fluency": 0})
    assert TrainingAnswer.objects.count() == 1
    task.refresh_from_db()
    assert task.state == Task.State.OPEN
    with pytest.raises(Refused, match="not the current step"):
        practice_answer(task=task, attempt=2, pair="another", answers={})


def test_missing_answers_are_no_attempt(browser: Client) -> None:
    make_pairwise("a", training_pairs=[TRAINING_PAIR])
    address = started(browser, "a")
    page = shown(post(browser, address, quality="a"))
    assert "3 answers are missing" in page
    assert not TrainingAnswer.objects.exists()


def test_practice_is_passed_once_whatever_version_has_the_pair_and_goes_with_its_person() -> None:
    study = make_pairwise("a", training_pairs=[TRAINING_PAIR])
    task = task_open(participant=make_participant(study))
    right = {"quality": 1, "fluency": 0}
    practice_answer(task=task, attempt=1, pair=study.values.training.training_pairs[0].digest, answers=right)
    study_edit(study=study, title="Another one", training_pairs=[TRAINING_PAIR, SECOND_PAIR])
    study.refresh_from_db()
    due = practice_due(task.participant, study.version)
    assert (due.place, due.n_pairs) == (2, 2)
    removed = participants_erase(participants=Participant.objects.all())
    assert removed["training_answers"] == 1
    assert not TrainingAnswer.objects.exists()


def test_scripted_people_know_the_answers_and_nobody_else(browser: Client) -> None:
    study = make_pairwise("a", training_pairs=[TRAINING_PAIR])
    pages = []
    for is_synthetic in (False, True):
        task = task_open(participant=make_participant(study, is_synthetic=is_synthetic))
        token = participant_token(task.participant)
        pages.append(shown(browser.get(f"/task/{task.public_id}/practice/?t={token}")))
    assert "_right" not in pages[0]
    assert 'name="_right" value="fluency=same&amp;quality=a"' in pages[1]


NAMES = {"eliza": "Robin", "parrot": "Kim", "generic": "Sasha"}


def make_chosen(**fields: object) -> Study:
    return make_study(**{"bots": list(NAMES), "choice": "names", "bot_names": dict(NAMES), **fields})


def offered(page: str) -> dict[str, str]:
    """Return the numbers of the radio buttons by the names beside them."""
    matches = re.findall(r'name="_chatbot" value="(\d+)"> <span dir="auto">([^<]+)</span>', page)
    return {name: number for number, name in matches}


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
    result = start(Client(), study, name)
    assert NAMES[result] == name
    assert Task.objects.get().drawn_by["chosen"] == "names"


def test_neutral_names_say_nothing_and_stand_for_other_bots_each_time() -> None:
    study = make_chosen(choice="neutral", bot_names={})
    page = Client().get("/s/s/").content.decode()
    assert set(offered(page)) == {"Chatbot 1", "Chatbot 2", "Chatbot 3"}
    assert not any(bot in page.lower() for bot in NAMES)
    results = {start(Client(), study, "Chatbot 1") for _ in range(12)}
    assert len(results) > 1


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
        ({"bot_names": {"eliza": "Robin"}}, "bot_names", "no name for participants to choose"),
        ({"bot_names": {**NAMES, "elisa": "Lou"}}, "bot_names", "is not a chatbot of this study"),
        ({"bot_names": {**NAMES, "parrot": "Robin"}}, "bot_names", "the same name"),
        ({"bot_names": "eliza Robin"}, "bot_names", "a colon and a name"),
        ({"bots_in_a_row": 2}, "choice", "cannot choose"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_at_its_field(fields: dict[str, object], at: str, words: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        make_chosen(**fields)
    assert words in " ".join(wrong.value.message_dict[at])
