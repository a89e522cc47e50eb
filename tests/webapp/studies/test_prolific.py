"""Prolific's codes and links: read out of what researchers paste, refused with a sentence."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from tests.builders import make_study
from webapp.studies.prolific import code_read, completion_link, link_code

LINK = "https://app.prolific.com/submissions/complete?cc="


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", ""),
        ("  C1ABC ", "C1ABC"),
        (LINK + "C1ABC", "C1ABC"),
        (f" {LINK}C1ABC\n", "C1ABC"),
        ("https://app.prolific.co/submissions/complete?cc=5DF12A&x=1", "5DF12A"),
    ],
)
def test_code_or_link_may_be_pasted(text: str, code: str) -> None:
    assert code_read(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "two words",
        LINK,
        LINK + "{code}",
        "https://evil.example/?cc=C1",
        "https://[",
        "app/C1",
        "<b>",
    ],
)
def test_what_holds_no_code_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="There is no completion code in"):
        code_read(text)


def test_links() -> None:
    assert completion_link("C1ABC") == LINK + "C1ABC"
    assert link_code(LINK + "C1ABC") == "C1ABC"
    assert link_code(LINK + "{code}") == ""
    assert link_code("https://prolific.com.evil.example/?cc=C1") == ""
    assert link_code("https://panel.example/?cc=GB") == ""


@pytest.mark.django_db
def test_a_study_keeps_the_codes_and_refuses_what_cannot_work() -> None:
    study = make_study(prolific_rated=LINK + "R1", prolific_bot_failed=" F1 ")
    codes = study.values.recruitment
    assert (codes.prolific_rated, codes.prolific_bot_failed) == ("R1", "F1")
    for fields, field, words in (
        ({"prolific_rated": "R1", "prolific_withdrawn": LINK + "R1"}, "prolific_withdrawn", "R1"),
        ({"prolific_bot_failed": "no code"}, "prolific_bot_failed", "“no code”"),
        ({"prolific_rated": "R1", "completion_url": LINK + "R2"}, "completion_url", "R2"),
    ):
        with pytest.raises(ValidationError) as refused:
            make_study("t", **fields)
        assert list(refused.value.message_dict) == [field]
        assert words in refused.value.message_dict[field][0]
