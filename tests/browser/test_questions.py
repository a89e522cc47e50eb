"""The questions before the task in a real browser: without script, by keyboard, on a phone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_participant import no_sideways_scroll, study
from tests.builders import QUIZ, TRAINING_PAIR
from tests.conftest import ConfabServer

ITEMS = """
from webapp.studies.lifecycle import items_import
from webapp.studies.study_file import items_sample
from webapp.studies.models import Study
from webapp.studies.protocols.base import protocols
from webapp.studies.study_file import FileItem
from webapp.studies.versions import study_edit
study = Study.objects.get(key={key!r})
address = "https://example.org/" + "longer-than-a-line" * 5
for one in items_sample(protocols.get("pairwise")):
    one |= {{"persona": [address], "context": [address]}}
    items_import(study=study, lines=[(1, FileItem.model_validate(one))])
study_edit(study=study, state="collecting")
"""

pytestmark = [pytest.mark.browser, pytest.mark.slow]
QUESTIONS = [
    {"key": "age", "title": "How old are you?", "kind": "choice", "options": ["18 to 29", "30+"]},
    {
        "key": "languages",
        "title": "Which of these languages do you speak at home or at work, however little?",
        "kind": "choices",
        "options": ["English", "Danish", "W" * 90],
    },
    {"key": "job", "title": "What do you do?", "kind": "text", "required": False},
]


def quiz_missed_once(page: Page) -> None:
    """Miss a question about the instructions by keyboard, and pass at the second try."""
    page.wait_for_url("**/quiz/")
    page.get_by_label("Five").press("Space")
    page.get_by_label("A person").press("Space")
    page.get_by_role("button", name="Check").press("Enter")
    banner = page.get_by_role("alert").filter(has_text="1 answer was not right.")
    expect(banner).to_be_focused()
    expect(page.locator("mark")).to_have_text("Talk about anything you like")
    expect(page.get_by_label("Five")).to_have_count(0)
    expect(page.get_by_text("If it is wrong again, the study ends here.")).to_be_visible()
    no_sideways_scroll(page)
    page.get_by_label("A person").press("ArrowDown")
    expect(page.get_by_label("A computer program")).to_be_checked()
    page.get_by_role("button", name="Check again").press("Enter")


@pytest.mark.parametrize("script", [True, False])
def test_questions_are_answered_by_keyboard_on_a_phone(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], script: bool
) -> None:
    key = study(test_bots_server, "asking", ["test-quick"], questions=QUESTIONS, quiz_questions=QUIZ)
    page = new_page(360, 740, java_script_enabled=script)
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    if script:
        page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start chatting").click()
    quiz_missed_once(page)
    page.wait_for_url("**/questions/")
    expect(page.get_by_role("heading", name="About you")).to_be_visible()
    expect(page.locator("nav.steps [aria-current=step]")).to_contain_text("About")
    expect(page.get_by_role("group", name="How old are you?")).to_be_visible()
    no_sideways_scroll(page)
    page.get_by_label("What do you do?").fill("A baker")
    page.get_by_role("button", name="Continue").press("Enter")
    summary = page.get_by_role("alert").filter(has_text="2 answers are missing")
    expect(summary).to_be_visible()
    if script:
        expect(page.locator("#summary")).to_be_focused()
        expect(page.get_by_role("button", name="Help", exact=True)).to_be_visible()
    expect(page.get_by_label("What do you do?")).to_have_value("A baker")
    group = page.get_by_role("group", name="Which of these languages")
    expect(group).to_have_accessible_description("Please answer this question.")
    no_sideways_scroll(page)
    if script:
        accessible(page)
    page.get_by_role("radio", name="30+").press("Space")
    page.get_by_role("checkbox", name="Danish").press("Space")
    for box in (page.get_by_role("radio", name="30+"), page.get_by_role("checkbox", name="Danish")):
        expect(box).to_be_checked()
    for label in page.locator(".asked .agree").all():
        assert label.bounding_box()["height"] >= 44
    page.get_by_role("button", name="Continue").press("Enter")
    page.wait_for_url("**/chat/**")
    if script:
        # Back from here lies the page that named what was missing: no form to be sent again, but the chat.
        page.go_back()
        expect(page.locator("#composer")).to_be_visible()
        page.wait_for_url("**/chat/**")


def test_a_practice_pair_is_missed_explained_and_passed_by_keyboard_on_a_phone(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    fields = {"protocol": "pairwise", "state": "draft", "n_items": 1}
    key = study(test_bots_server, "practice", [], **fields, training_pairs=[TRAINING_PAIR])
    test_bots_server.shell(ITEMS.format(key=key))
    page = new_page(360, 740)
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").last.click()
    page.wait_for_url("**/practice/")
    expect(page.locator("nav.steps [aria-current=step]")).to_contain_text("Practice")
    no_sideways_scroll(page)

    def choose(*answers: str) -> None:
        names = ("quality", "fluency", "relatedness", "empathy")
        for question, answer in zip(names, answers, strict=True):
            page.locator(f"[name={question}][value={answer}]").press("Space")
        page.get_by_role("button", name="Check").press("Enter")

    choose("b", "same", "a", "a")
    why = page.get_by_role("alert")
    expect(why).to_contain_text("Not quite. Read why below, then try once more.")
    expect(why).to_contain_text("The first asks about the loss")
    expect(page.locator("#summary")).to_be_focused()
    no_sideways_scroll(page)
    accessible(page)
    choose("a", "same", "a", "a")
    page.wait_for_url("**/judge/")
    expect(page.get_by_role("heading", name="Which reply is better?")).to_be_focused()
    expect(page.get_by_role("group", name="Which is better overall?")).to_be_visible()
    choices = page.get_by_role("radio", name="Reply A is better")
    expect(choices).to_have_count(4)
    no_sideways_scroll(page)


def test_a_question_is_hidden_until_the_answer_that_it_depends_on(
    new_page: Callable[..., Page], test_bots_server: ConfabServer
) -> None:
    uses = {"key": "uses", "title": "Do you use chatbots?", "kind": "choice", "options": ["Daily", "Never"]}
    how = {"key": "how", "title": "How often a day?", "kind": "scale", "low": 0, "high": 50}
    how["show_when"] = {"key": "uses", "answers": ["Daily"]}
    why = {"key": "why", "title": "Why so often?", "kind": "text", "show_when": {"key": "how", "answers": ["50"]}}
    key = study(test_bots_server, "conditions", ["test-quick"], questions=[uses, how, why])
    page = new_page(390, 800)
    page.goto(f"{test_bots_server.url}/s/{key}/")
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Start").click()
    how_box, why_box = page.locator("#q-how"), page.locator("#q-why")
    expect(page.get_by_text("Do you use chatbots?")).to_be_visible()
    expect(how_box).to_be_hidden()
    page.get_by_label("Daily").check()
    expect(how_box).to_be_visible()
    expect(why_box).to_be_hidden()
    how_box.get_by_role("spinbutton").fill("50")
    expect(why_box).to_be_visible()
    accessible(page)
    page.get_by_label("Never").check()
    expect(how_box).to_be_hidden()
    expect(why_box).to_be_hidden()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/chat/**")
