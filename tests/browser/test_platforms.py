"""Prolific and Mechanical Turk, played by `tests/platforms.py`, around the participant's way in a real browser."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import FrameLocator, Page, expect

from tests.browser.test_participant import chat_and_rate, no_sideways_scroll, study
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
