"""App configuration: personal data, flags, and the trigger on answers.

The trigger rejects answers outside a scale.

A check constraint sees one row of one table, but the scale is in another one. To change a table SQLite rewrites it, and
it cannot rename a table while a trigger refers to it. So the trigger is removed before migrations and created again
after them.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.translation import gettext_lazy as _

_TABLES = {"ratings_rating", "studies_dimension", "studies_rubric"}
_NAME = "rating_answers_on_scale"
_MESSAGE = "an answer is not on the scale of its question"
_FIRES = (("insert", "INSERT"), ("update", "UPDATE OF answers, rubric_id"))
# Two answers next to a reference belong to no question: the direction and the reference's score.
_BEYOND = """
    CASE
        WHEN d.id IS NOT NULL THEN {value} < COALESCE(d.low, r.low) OR {value} > COALESCE(d.high, r.high)
        WHEN a.key = 'direction' THEN {value} NOT IN (-1, 0, 1)
        WHEN a.key = 'reference_score' THEN {value} < r.low OR {value} > r.high
        ELSE {never}
    END
"""
_FROM = """
    FROM {each}(NEW.answers) AS a
    JOIN studies_rubric AS r ON r.id = NEW.rubric_id
    LEFT JOIN studies_dimension AS d ON d.rubric_id = r.id AND d.key = a.key
"""
_ASKED = "(d.id IS NOT NULL OR a.key IN ('direction', 'reference_score'))"

_SQLITE = f"""
CREATE TRIGGER {_NAME}_{{when}} BEFORE {{event}} ON ratings_rating
WHEN EXISTS (
    SELECT 1 {_FROM.format(each="json_each")}
    WHERE {_ASKED} AND a.type <> 'null'
      AND (a.type NOT IN ('integer', 'real') OR {_BEYOND.format(value="a.value", never="0")})
)
BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END
"""
_POSTGRESQL_FUNCTION = f"""
CREATE OR REPLACE FUNCTION {_NAME}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 {_FROM.format(each="jsonb_each")}
        WHERE {_ASKED} AND jsonb_typeof(a.value) <> 'null'
          AND CASE WHEN jsonb_typeof(a.value) = 'number'
              THEN {_BEYOND.format(value="(a.value #>> '{}')::float8", never="FALSE")}
              ELSE TRUE END
    ) THEN
        RAISE EXCEPTION '{_MESSAGE}' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$
"""
_POSTGRESQL = f"""
CREATE TRIGGER {_NAME}_{{when}} BEFORE {{event}} ON ratings_rating
FOR EACH ROW EXECUTE FUNCTION {_NAME}()
"""


def triggers_remove(*, using: str, **_signal: Any) -> None:
    """Remove the triggers before migrations that may change the tables."""
    connection = connections[using]
    if not _has_tables(connection):
        return
    of_table = " ON ratings_rating" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for when, _event in _FIRES:
            cursor.execute(f"DROP TRIGGER IF EXISTS {_NAME}_{when}{of_table}")


def triggers_ensure(*, using: str, **_signal: Any) -> None:
    """Create the triggers after the tables exist."""
    connection = connections[using]
    if not _has_tables(connection):
        return
    triggers_remove(using=using)
    is_postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        if is_postgresql:
            cursor.execute(_POSTGRESQL_FUNCTION)
        for when, event in _FIRES:
            statement = _POSTGRESQL if is_postgresql else _SQLITE
            cursor.execute(statement.format(when=when, event=event))


def _has_tables(connection: Any) -> bool:
    with connection.cursor() as cursor:
        return set(connection.introspection.table_names(cursor)) >= _TABLES


class RatingsConfig(AppConfig):
    name = "webapp.ratings"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.ratings import erasure
        from webapp.ratings.apps import triggers_ensure, triggers_remove
        from webapp.ratings.flags.base import flag_kinds, register_statistic
        from webapp.ratings.selectors import ratings_by
        from webapp.studies.privacy import erasure_kind

        flag_kinds.look_into("webapp.ratings.flags")
        register_statistic("checks", _checks)
        erasure.connect_texts()
        erasure.connect_deletions()
        erasure_kind("ratings", _("ratings, with their comments"), ratings_by)
        pre_migrate.connect(triggers_remove, sender=self)
        post_migrate.connect(triggers_ensure, sender=self)


def _checks(study: Any) -> dict[str, Any]:
    # Its analysis imports too much for the start of a command.
    from webapp.ratings.attention_results import attention_summary

    return attention_summary(study)
