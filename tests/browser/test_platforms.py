"""Prolific and Mechanical Turk, played by `tests/platforms.py`, around the participant's way in a real browser."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import FrameLocator, Page, expect

from tests.browser.test_participant import chat_and_rate, choose, no_sideways_scroll, study
from tests.builders import BY_PROLIFIC
from tests.conftest import ConfabServer
from tests.platforms import FakeMTurk, FakeProlific
from webapp.studies.recruitment.settings import external_question, recruiting_link

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ACTIONS = {"RATED1": "AWAITING REVIEW", "REFUSED1": "RETURNED"}


def no_thanks(within: Page | FrameLocator) -> None:
    """Do not agree."""
    within.get_by_role("button", name="I do not agree").click()


@pytest.mark.parametrize(
    ("end", "code", "heading", "width"),
    [
        (chat_and_rate, "RATED1", "Thank you. Everything is saved.", 360),
        (no_thanks, "REFUSED1", "You did not agree to take part.", 1280),
    ],
    ids=["rated", "no_consent"],
)
def test_prolific_hears_of_an_end_that_is_stored(
    test_bots_server: ConfabServer,
    new_page: Callable[..., Page],
    end: Callable[[Page], None],
    code: str,
    heading: str,
    width: int,
) -> None:
    server = test_bots_server
    key = study(server, "prolific", ["test-quick"], min_exchanges=1, **BY_PROLIFIC)
    prolific = FakeProlific(recruiting_link(f"{server.url}/s/{key}/"), ACTIONS)
    link = prolific.reserve("anna")
    known_then = []
    page = new_page(width)

    def prolific_answers(route: Any) -> None:
        # What anybody sees who opens the link at this very moment is what has been committed.
        known_then.append(f">{code}</p>" in httpx.get(link).text)
        status, body = prolific.answer(route.request.url, "anna")
        route.fulfill(status=status, content_type="text/html", body=body)

    page.route(f"{prolific.HOST}/**", prolific_answers)
    page.goto(link)
    end(page)
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    expect(page.locator("#code")).to_have_text(code)
    no_sideways_scroll(page)
    page.get_by_role("link", name="Return to Prolific").click()
    expect(page.get_by_text(f"Submission {ACTIONS[code]}.")).to_be_visible()
    assert known_then == [True]
    assert prolific.submissions["session-1"].code == code


def test_mechanical_turk_previews_and_takes_back_in_its_frame(
    test_bots_server: ConfabServer, new_page: Callable[..., Page]
) -> None:
    server = test_bots_server
    key = study(server, "turk", ["test-quick"], min_exchanges=1, platform="mturk")
    turk = FakeMTurk(external_question(f"{server.url}/s/{key}/"))
    shown = turk.preview()
    page = new_page()

    def turk_answers(route: Any) -> None:
        request, status, body = route.request, 200, turk.page(shown)
        if request.method == "POST":
            status, body = turk.submit(request.url, request.post_data)
        route.fulfill(status=status, content_type="text/html", body=body)

    page.route(f"{turk.HOST}/**", turk_answers)
    page.goto(f"{turk.HOST}/task")
    frame = page.frame_locator("iframe")
    frame.get_by_role("checkbox").check()
    frame.get_by_role("button", name="Continue").click()
    expect(frame.get_by_role("button", name="Accept the task to start")).to_be_visible()
    expect(frame.get_by_text("I do not agree")).to_have_count(0)

    shown = turk.accept("one")
    page.reload()
    no_thanks(frame)
    expect(frame.get_by_role("heading", level=1)).to_have_text("You did not agree to take part.")
    expect(frame.get_by_text("Return your place on Mechanical Turk")).to_be_visible()
    page.reload()  # no cookie came into the frame, and the visit is known all the same
    expect(frame.get_by_role("heading", level=1)).to_have_text("You did not agree to take part.")

    shown = turk.accept("two")
    page.reload()
    chat_and_rate(frame)
    code = frame.locator("#code").inner_text()
    frame.get_by_role("button", name="Send to Mechanical Turk").click()
    expect(frame.get_by_text("Submitted.")).to_be_visible()
    assert turk.assignments["assignment-2"].answers == {"completionCode": code, "outcome": "rated"}
    assert turk.assignments["assignment-1"].status == "Accepted"


SURVEY = "https://survey.example.org"
HOST_PAGE = """<!doctype html><meta name="viewport" content="width=device-width">
<iframe src="{address}" style="width:100%;height:90vh;border:0" title="Chat"></iframe>
<script>
window.messages = [];
addEventListener("message", (event) => {{
  if (event.origin === "{origin}" && event.data.type === "confab-end") messages.push(event.data);
}});
</script>"""


@pytest.mark.parametrize("width", [390, 1366])
def test_a_survey_frames_the_study_and_is_told_the_end(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], width: int
) -> None:
    server = test_bots_server
    panel = {"platform": "panel", "id_parameter": "rid", "more_parameters": "wave", "frame_ancestors": SURVEY}
    outcomes = ("rated", "bot_failed", "screened_out", "failed_check", "no_consent", "withdrawn", "late")
    panel |= {f"link_{outcome}": SURVEY + "/back?outcome={outcome}&code={code}" for outcome in outcomes}
    key = study(server, "survey", ["test-quick"], min_exchanges=1, **panel)
    page = new_page(width)

    def play(host: str) -> Callable[[Any], None]:
        address = f"{server.url}/s/{key}/?rid=R_1{width}&wave=2"
        body = HOST_PAGE.format(address=address, origin=server.url)
        return lambda route: route.fulfill(status=200, content_type="text/html", body=body)

    page.route(f"{SURVEY}/**", play(SURVEY))
    page.goto(f"{SURVEY}/form")
    frame = page.frame_locator("iframe")
    chat_and_rate(frame)
    expect(frame.locator("#code")).to_be_visible()
    code = frame.locator("#code").inner_text()
    page.wait_for_function("messages.length === 1")
    message = page.evaluate("messages[0]")
    assert (message["outcome"], message["code"]) == ("rated", code)
    assert message["parameters"] == {"rid": f"R_1{width}", "wave": "2"}
    assert len(message["conversation"]) == 36
    assert page.context.cookies(server.url) == [], "the frame works without cookies"
    page.reload()  # the response id leads to the same end
    page.wait_for_function("messages.length === 1")
    assert page.evaluate("messages[0].code") == code


@pytest.mark.parametrize("width", [390, 1366])
def test_a_framed_chat_survives_reload_and_back_without_cookies(
    test_bots_server: ConfabServer, new_page: Callable[..., Page], width: int
) -> None:
    server = test_bots_server
    panel = {"platform": "panel", "id_parameter": "rid", "frame_ancestors": SURVEY}
    outcomes = ("rated", "bot_failed", "screened_out", "failed_check", "no_consent", "withdrawn", "late")
    back = SURVEY + "/back?chat={conversation}&code={code}"
    key = study(server, "back", ["test-quick"], min_exchanges=2, **panel, **{f"link_{name}": back for name in outcomes})
    rid = f"R_{width}aXbPq8Lm0wYt7K"
    page = new_page(width)
    body = HOST_PAGE.format(address=f"{server.url}/s/{key}/?rid={rid}", origin=server.url)
    page.route(f"{SURVEY}/**", lambda route: route.fulfill(status=200, content_type="text/html", body=body))
    page.goto(f"{SURVEY}/form")
    frame = page.frame_locator("iframe")
    frame.get_by_role("checkbox").check()
    frame.get_by_role("button", name="Continue").click()
    frame.get_by_role("button", name="Start chatting").click()
    frame.locator("#text").fill("First message")
    frame.get_by_role("button", name="Send").click()
    expect(frame.locator("#log .votes")).to_have_count(1)

    def agree_again() -> None:
        """Agree on the first page, which leads back to the chat: the response id is known."""
        frame.get_by_role("checkbox").check()
        frame.get_by_role("button", name="Continue").click()
        frame.get_by_role("button", name="Start chatting").click()
        expect(frame.locator("#log")).to_contain_text("First message")

    page.reload()  # the survey's page opens the study's link again
    agree_again()
    with page.expect_event("framenavigated"):
        page.evaluate("history.back()")  # within the frame, to the first page
    agree_again()
    frame.locator("#text").fill("Second message")
    frame.get_by_role("button", name="Send").click()
    expect(frame.locator("#log .votes")).to_have_count(2)
    frame.locator("#rate").click()
    for question in ("quality", "fluency", "diversity", "contingency", "empathy"):
        choose(frame, question, 4)
    frame.get_by_role("button", name="Save and finish").click()
    page.wait_for_function("messages.length === 1")
    conversation = page.evaluate("messages[0].conversation")
    assert f"{SURVEY}/back?chat={conversation}&" in (frame.locator("#return").get_attribute("href") or "")
    assert page.context.cookies(server.url) == [], "the frame works without cookies"
