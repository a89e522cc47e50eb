"""Prolific's codes and links: read out of what researchers paste, refused with a sentence."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from tests.builders import BY_PROLIFIC, make_study
from webapp.studies.models import Outcome, StudyVersion
from webapp.studies.recruitment.settings import code_read, completion_link, link_code
from webapp.studies.settings import StudyValues
from webapp.studies.versions import study_edit

NO_WAY_BACK = {f"link_{outcome}": "https://panel.example/" for outcome in Outcome.values if outcome != "withdrawn"}
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
    "text", ["two words", LINK, LINK + "{code}", "https://evil.example/?cc=C1", "https://[", "app/C1", "<b>"]
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
    study = make_study(code_rated=LINK + "R1", code_bot_failed=" F1 ")
    codes = study.values.recruitment
    assert (codes.code_rated, codes.code_bot_failed) == ("R1", "F1")
    for fields, field, words in (
        ({"code_rated": "R1", "code_withdrawn": LINK + "R1"}, "code_withdrawn", "R1"),
        ({"code_bot_failed": "no code"}, "code_bot_failed", "“no code”"),
        ({"link_rated": "https://panel.example/?x={psid}"}, "link_rated", "{psid}"),
        ({"link_rated": "panel"}, "link_rated", "https://"),
        ({"more_parameters": "psid PROLIFIC_PID"}, "more_parameters", "PROLIFIC_PID"),
        ({**BY_PROLIFIC, "code_no_consent": ""}, "code_no_consent", "Did not agree"),
        ({"platform": "panel", **NO_WAY_BACK}, "link_withdrawn", "Withdrawn"),
    ):
        with pytest.raises(ValidationError) as refused:
            make_study("t", **fields)
        assert list(refused.value.message_dict) == [field]
        assert words in refused.value.message_dict[field][0]


@pytest.mark.django_db
def test_a_draft_may_lack_codes_and_a_study_that_collects_may_be_changed_without() -> None:
    study = make_study(state="draft", platform="prolific", code_rated="R1")
    with pytest.raises(ValidationError) as refused:
        study_edit(study=study, state="collecting")
    assert set(refused.value.message_dict) == {f"code_{outcome}" for outcome in Outcome.values if outcome != "rated"}
    study.refresh_from_db()
    type(study).objects.filter(pk=study.pk).update(state="collecting")
    study.refresh_from_db()
    assert study_edit(study=study, minutes=3).values.texts.minutes == 3


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        (
            {"prolific_rated": "R1", "prolific_bot_failed": "", "prolific_withdrawn": "W1"},
            {"platform": "prolific", "code_rated": "R1", "code_withdrawn": "W1"},
        ),
        ({"completion_url": LINK + "R1"}, {"platform": "prolific", "code_rated": "R1"}),
        ({"completion_url": LINK + "R1", "prolific_rated": "R1"}, {"platform": "prolific", "code_rated": "R1"}),
        ({"completion_url": LINK + "{code}"}, {"platform": "prolific", "link_rated": LINK + "{code}"}),
        ({"completion_url": "https://panel.example/?c={code}"}, {"link_rated": "https://panel.example/?c={code}"}),
        ({"completion_url": "", "prolific_rated": ""}, {}),
    ],
)
def test_what_earlier_releases_stored_is_read(stored: dict, now: dict) -> None:
    stored = {"auto_return": True, "frame_ancestors": "https://a.example", **stored}
    values = StudyValues.model_validate({"recruitment": stored})
    said = values.recruitment.model_dump(exclude_defaults=True)
    assert said == {"auto_return": True, "frame_ancestors": "https://a.example", **now}


@pytest.mark.django_db
def test_a_study_of_an_earlier_release_is_read_and_saved_without_a_new_version() -> None:
    study = make_study()
    plain = study.values.to_json()
    plain["recruitment"] = {"prolific_rated": "R1", "auto_return": False, "frame_ancestors": ""}
    kept = StudyVersion.objects.filter(pk=study.version_id)
    kept.update(values=plain, frozen_at=study.created_at)
    digest = kept.get().digest
    study.refresh_from_db()
    assert study.values.recruitment.code_rated == "R1"
    same = study_edit(study=study, **study.values.flat())
    assert (same.version_id, kept.get().digest) == (study.version_id, digest)
