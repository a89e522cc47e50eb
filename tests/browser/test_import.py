"""A lab's CSV in the browser: from the start page to the compared bots in at most six clicks."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import accessible
from tests.browser.test_dashboard import no_sideways_scroll, sign_in
from tests.conftest import ConfabServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_CLICKS = 6
COUNTER = "addEventListener('pointerdown', () => sessionStorage.n = Number(sessionStorage.n || 0) + 1, true)"
MEANS = {"alpha": 6, "beta": 4, "gamma": 2}


def table_of_a_lab(path: Path) -> None:
    """Write a CSV as a German Excel does: a row per exchange, three bots, two questions from 1 to 7, five raters."""
    drawn = random.Random(1)
    text = io.StringIO()
    rows = csv.writer(text, delimiter=";", lineterminator="\r\n")
    rows.writerow(["conversation", "model", "user", "response", "rater", "quality", "fun"])
    for bot, mean in MEANS.items():
        for n in range(15):
            answers = [mean + drawn.choice((-1, 0, 1)), mean + drawn.choice((-1, 0, 1))]
            rows.writerow(
                [f"{bot}{n}", bot, "Grüß dich!", f"Schön, dass du da bist, zum {n}. Mal.", f"r{n % 5}", *answers]
            )
    path.write_bytes(text.getvalue().encode("cp1252"))


@pytest.mark.parametrize("width", [390, 1366])
def test_the_csv_of_a_lab_is_a_compared_study_after_six_clicks(
    width: int, test_bots_server: ConfabServer, new_page: Callable[..., Page], tmp_path: Path
) -> None:
    test_bots_server.shell(
        "from django.contrib.auth import get_user_model;"
        "U = get_user_model().objects;"
        "U.filter(username='res').exists() or U.create_superuser('res', password='a-long-password')"
    )
    path = tmp_path / f"last_year_{width}.csv"
    table_of_a_lab(path)
    page = new_page(width=width, height=800)
    page.add_init_script(COUNTER)
    sign_in(page, test_bots_server)
    page.goto(f"{test_bots_server.url}/dashboard/")
    page.evaluate("sessionStorage.n = 0")

    page.get_by_role("link", name="Import", exact=True).first.click()
    with page.expect_file_chooser() as chooser:
        page.get_by_label("File").click()
    chooser.value.set_files(path)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("Windows-1252")).to_be_visible()
    no_sideways_scroll(page)
    accessible(page)
    page.get_by_label("The suggested scales").check()
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("link", name="Open the study").click()
    expect(page.get_by_text("alpha leads by quality: ")).to_be_visible()
    expect(page.get_by_text("3 of 3, by quality")).to_be_visible()
    assert 0 < page.evaluate("Number(sessionStorage.n)") <= MOST_CLICKS
    no_sideways_scroll(page)
