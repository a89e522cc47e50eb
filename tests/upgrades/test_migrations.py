"""Migrations that change stored rows, or tables with triggers: taken back and forward once for all of them."""

from datetime import UTC, datetime

import pytest
from django.db import connection

from tests.builders import BY_PROLIFIC, make_study
from tests.upgrades.database import migrated_back
from webapp.ratings.apps import triggers_ensure
from webapp.studies.models import LinkCount, Participant, PlatformIds
from webapp.studies.services import participant_enter

pytestmark = pytest.mark.django_db(transaction=True)

EARLIER = [("studies", "0044_live_room_indexes"), ("ratings", "0004_ratings_of_tasks")]
"""Before link openings became counts of days, ids lost their blanks, and ratings got further columns."""
MONDAY, TUESDAY = (datetime(2026, 11, day, 12, tzinfo=UTC) for day in (23, 24))
OPENINGS = [
    (MONDAY, MONDAY, "", False),
    (MONDAY, None, "", False),
    (MONDAY, None, "paused", False),
    (TUESDAY, TUESDAY, "full", False),  # could begin later
    (TUESDAY, None, "", True),
]
"""Time, time of the answer, refusal and `is_synthetic` of each opening of a link."""
IDS = [
    ("s", "prolific", " alone ", "alone"),
    ("s", "prolific", "twin", "twin"),
    ("s", "prolific", "twin ", "twin "),
    ("s", "prolific", "late\t", "late"),
    ("s", "prolific", "\ufefflate", "\ufefflate"),
    ("other", "prolific", " twin", "twin"),
    ("s", "import", " rater ", " rater "),
    ("s", "prolific", "   ", "   "),
]
"""Study, platform, stored id and id afterwards of each participant; two of a study never get the same one."""


def test_rows_of_earlier_migrations_are_converted_and_triggers_stay_in_force() -> None:
    studies = {key: make_study(key, **BY_PROLIFIC) for key in ("s", "other")}
    people = [Participant.objects.create(study=studies[key], platform=platform) for key, platform, *_ in IDS]
    with migrated_back(*EARLIER) as before:
        opening = before.get_model("studies", "LinkOpening")
        for number, (at, answered_at, refused, is_synthetic) in enumerate(OPENINGS):
            row = opening.objects.create(
                study_id=studies["s"].pk,
                browser=f"digest{number}",
                seen_at=at,
                answered_at=answered_at,
                refused=refused,
                is_synthetic=is_synthetic,
            )
            opening.objects.filter(pk=row.pk).update(opened_at=at)
        for participant, (key, platform, name, _stripped) in zip(people, IDS, strict=True):
            sent = {"PROLIFIC_PID": name, "SESSION_ID": "se "} if platform == "prolific" else {}
            before.get_model("studies", "PlatformIds").objects.create(
                participant_id=participant.pk,
                study_id=studies[key].pk,
                platform=platform,
                external_id=name,
                parameters=sent,
            )

    counts = LinkCount.objects.values_list("day", "is_synthetic", "refused", "n")
    assert set(counts) == {
        (MONDAY.date(), False, "", 2),
        (MONDAY.date(), False, "paused", 1),
        (TUESDAY.date(), False, "", 1),
        (TUESDAY.date(), True, "", 1),
    }
    assert "studies_linkopening" not in connection.introspection.table_names()  # no digest is left

    rows = PlatformIds.objects.order_by("pk")
    assert list(rows.values_list("external_id", flat=True)) == [stripped for *_, stripped in IDS]
    assert rows[0].parameters == {"PROLIFIC_PID": "alone", "SESSION_ID": "se "}
    assert rows[2].parameters["PROLIFIC_PID"] == "twin "
    assert participant_enter(study=studies["s"], platform="prolific", external_id="alone") == people[0]

    triggers_ensure(using="default")  # again, to no harm; SQLite rewrites changed tables without their triggers
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'rating_answers%'")
        else:
            cursor.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE 'rating_answers%'")
        assert cursor.fetchone()[0] == 2
