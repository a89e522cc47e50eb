"""Previews for researchers, in which nothing can happen; and opinions of scripted participants."""

import html
import json
from collections import Counter
from statistics import mean, stdev

import pytest
from django.test import Client

from evaluation.data.languages import language_of
from tests.builders import BY_PROLIFIC, make_annotated, make_study, signed_in
from tests.webapp.participant.conftest import begin, chat, policy
from webapp.core.language import LANGUAGES
from webapp.core.rights import Right
from webapp.participant.simulated import ScriptedParticipant, StudyClient
from webapp.participant.simulated.answers import script_in
from webapp.studies.models import Study, Task
from webapp.studies.study_file import study_example
from webapp.studies.versions import study_edit

STEPS = ("consent", "instructions", "chat", "form", "done")


@pytest.fixture
def staff(db: None) -> Client:
    return signed_in(Right.READ, Right.PAY)


def told(page) -> dict:
    content = page.content.decode().split('name="confab-preview" content="')[1].split('"')[0]
    return json.loads(html.unescape(content))


def test_staff_alone_see_previews(study: Study, browser: Client) -> None:
    begin(browser)
    assert browser.get("/preview/s/chat/").status_code == 302
    stranger = signed_in(username="no-rights")
    assert stranger.get("/preview/s/chat/").status_code == 403


@pytest.mark.parametrize("path", ["nobody/chat/", "s/judge/", "s/nonsense/"])
def test_what_the_study_does_not_have_is_not_found(study: Study, staff: Client, path: str) -> None:
    assert staff.get(f"/preview/{path}").status_code == 404


def test_a_step_that_the_study_has_nothing_for_leads_to_its_first_page(study: Study, staff: Client) -> None:
    answer = staff.get("/preview/s/questions/", {"theme": "dark"})
    assert answer.url.startswith("/preview/s/consent/?theme=dark")


@pytest.mark.parametrize("state", Study.State.values)
def test_a_study_is_shown_whatever_its_state(study: Study, staff: Client, state: str) -> None:
    Study.objects.update(state=state)
    for step in STEPS:
        assert staff.get(f"/preview/s/{step}/").status_code == 200


@pytest.mark.parametrize("step", STEPS)
def test_nothing_can_leave_a_preview(study: Study, staff: Client, step: str) -> None:
    page = staff.get(f"/preview/s/{step}/")
    rules = policy(page)
    assert rules["form-action"] == rules["connect-src"] == ["'none'"]
    assert rules["frame-ancestors"] == ["'self'"]
    assert page["X-Frame-Options"] == "SAMEORIGIN"
    assert "no-store" in page["Cache-Control"]
    assert staff.post(f"/preview/s/{step}/").status_code == 405


def test_the_policy_stays_where_the_study_is_framed_elsewhere(staff: Client) -> None:
    make_study(frame_ancestors="https://panel.example.org")
    assert policy(staff.get("/preview/s/chat/"))["frame-ancestors"] == ["'self'"]


def test_it_shows_the_newest_values_and_not_those_people_agreed_to(
    study: Study, staff: Client, browser: Client
) -> None:
    begin(browser)
    study.refresh_from_db()
    study_edit(study=study, title="What is new")
    assert b"What is new" in staff.get("/preview/s/consent/").content
    assert b"What is new" in staff.get("/preview/s/done/").content


def test_the_studys_own_items_are_shown_first(staff: Client) -> None:
    study = make_annotated(n_items=4)
    assert b"reply 0" in staff.get("/preview/a/judge/").content
    study.items.all().delete()
    assert b"Fried rice is quick" in staff.get("/preview/a/judge/").content


def test_a_researcher_who_takes_part_keeps_the_own_chat(study: Study, staff: Client) -> None:
    conversation = begin(staff)
    chat(conversation, 3)
    before = dict(staff.cookies)
    assert b"Continue where you left off" not in staff.get("/preview/s/consent/").content
    assert str(conversation.pk) not in staff.get("/preview/s/chat/").content.decode()
    assert dict(staff.cookies) == before
    assert staff.get(f"/chat/{conversation.pk}/").status_code == 200
    assert Task.objects.count() == 1


@pytest.mark.parametrize("focus", ["<script>", 'x"y', "title"])
def test_what_is_edited_travels_as_text(study: Study, staff: Client, focus: str) -> None:
    page = staff.get("/preview/s/consent/", {"focus": focus})
    assert told(page)["focus"] == focus


def test_it_takes_as_many_queries_as_the_page_and_a_few(
    study: Study, staff: Client, django_assert_max_num_queries
) -> None:
    with django_assert_max_num_queries(40):
        staff.get("/preview/s/form/")


@pytest.mark.django_db
def test_a_preview_begins_with_the_opening(staff: Client) -> None:
    levels = [{"key": key, "opening": f"Hello, {key}."} for key in ("one", "two")]
    fields = {"protocol": "marked_chat", "marked_when": "during", "n_own_marked": 2, "min_exchanges": 3}
    make_study("opened", bots=["eliza"], factors=[{"key": "greeting", "levels": levels}], **fields)
    page = staff.get("/preview/opened/chat/")
    assert page.status_code == 200
    assert told(page)["opening"] == "Hello, one."
    page = staff.get("/preview/opened/judge/?level=1.2")
    assert page.status_code == 200
    text = page.content.decode()
    assert text.count("Hello, two.") == 2  # on the page, and in what its script is told
    assert "Reply 1 of 2" in text
    assert (text.count('class="marked-bot'), text.count("data-reply=")) == (4, 2)


@pytest.mark.django_db
def test_completion_codes_are_shown_to_those_who_pay_or_set_them() -> None:
    study = make_study("codes", **BY_PROLIFIC)
    for rights, status in (((Right.READ,), 403), ((Right.READ, Right.ADMINISTER), 200)):
        client = signed_in(*rights, username=f"r{status}")
        page = client.get(f"/preview/{study.key}/done/")
        assert page.status_code == status
        assert ("RATED1" in page.content.decode()) == (status == 200)
        step = client.get(f"/dashboard/studies/{study.key}/build/pay/")
        assert step.status_code == status
        assert client.get(f"/dashboard/studies/{study.key}/study.yaml").status_code == status


CHOICES = [str(value) for value in range(1, 8)]
QUESTIONS = ["quality", "fluency", "diversity", "contingency", "empathy"]
DOORS = StudyClient("http://127.0.0.1", "s")
SAID = [
    "hello there",
    "i went to the sea yesterday",
    "do you like swimming",
    "my brother has a boat",
    "we caught two fish",
]
CHATS = {
    "parrot": SAID,
    "generic": ["I see.", "Okay.", "I see.", "Go on.", "Okay."],
    "rules": [
        "How do you do. What would you like to talk about?",
        "Tell me more about the sea.",
        "Why do you ask?",
        "Tell me more about your family.",
        "Why do you say that you caught two fish?",
    ],
    "talker": [
        "Hello, how nice to meet you, what have you been doing this week?",
        "That sounds lovely, was the water warm enough for you to swim in it?",
        "I do like it, although pools smell a little too much of chlorine for me.",
        "A boat must be a lot of work, does he take it out every weekend?",
        "Two is enough for dinner, I suppose you fried them in butter right away?",
    ],
}


def person_of(seed: int) -> ScriptedParticipant:
    return ScriptedParticipant(DOORS, lines=[SAID], seed=seed)


def answers_of(heard: list[str], seed: int, choices: list[str] = CHOICES) -> dict[str, int]:
    person = person_of(seed)
    person.said, person.heard = SAID, heard
    return {question: int(person.answer(question, choices)) for question in QUESTIONS}


GOOD = {
    "talker": CHATS["talker"],
    "novelist": [3 * f"{reply} " for reply in CHATS["talker"]],
    "asker": [f"{reply} And you?" for reply in CHATS["talker"]],
}
PEOPLE = range(60)


def test_opinions_spread_over_the_scale_and_tell_bots_apart() -> None:
    answers = {bot: [answers_of(heard, seed) for seed in PEOPLE] for bot, heard in CHATS.items()}
    quality = {bot: mean(given["quality"] for given in all_) for bot, all_ in answers.items()}
    assert quality["parrot"] < quality["generic"] < quality["rules"] < quality["talker"]
    assert quality["parrot"] < 3
    assert 4.5 < quality["talker"] < 6
    counts = Counter(given["quality"] for all_ in answers.values() for given in all_)
    assert set(counts) == set(range(1, 8))
    assert max(counts.values()) < 0.3 * counts.total()


@pytest.mark.parametrize("bots", [["talker"], ["novelist"], list(GOOD)])
@pytest.mark.parametrize("n_points", [4, 5, 7, 101])
def test_good_bots_alone_do_not_crowd_the_top(bots: list[str], n_points: int) -> None:
    """Whatever the scale: several points are used, the best by a minority, and people differ."""
    choices = [str(point) for point in range(n_points)]
    shares = [int(answers_of(GOOD[bot], seed, choices)["quality"]) / (n_points - 1) for bot in bots for seed in PEOPLE]
    assert 0.5 < mean(shares) < 0.85
    assert stdev(shares) > 0.15
    assert shares.count(1) < 0.4 * len(shares)
    assert len(set(shares)) >= min(4, n_points - 1)


def test_people_who_compare_differ_too() -> None:
    """Two good replies get all three answers; a good one mostly wins over an echo, on whichever side it stands."""
    good = GOOD["talker"][:2]
    values = [person_of(seed).prefer("hi", good, "quality", ["a", "same", "b"]) for seed in PEOPLE]
    assert min(Counter(values)[side] for side in ("a", "same", "b")) > len(PEOPLE) / 6
    for heard, better in (([good[0], "hi"], "a"), (["hi", good[0]], "b")):
        values = [person_of(seed).prefer("hi", heard, "quality", ["a", "same", "b"]) for seed in PEOPLE]
        assert len(PEOPLE) / 2 < values.count(better) < len(PEOPLE)


def test_people_have_favourites_that_others_share_in_part() -> None:
    chosen = Counter(favourite for seed in PEOPLE for favourite in person_of(seed).favourites(QUESTIONS, 2))
    assert chosen.total() == 2 * len(PEOPLE)
    assert len(chosen) == len(QUESTIONS)
    assert max(chosen.values()) > 1.5 * min(chosen.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_they_write_the_language_of_the_study(language: str) -> None:
    """Their reasons are long enough, and a check says what to choose."""
    script = script_in(language)
    assert language_of([line for talk in script.lines[:6] for line in talk]) == language
    assert all(line.strip() for talk in script.lines for line in talk)
    assert len(script.comment.split()) >= 3
    [check] = study_example("survey", language).attention.attention_checks
    assert "2" in check.response
