"""`versions.json`: what made the data and the package, so that it is known years later."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from typing import Any

from django.db import connection
from django.db.models import Max

from chatbots.release import VERSION, commit, package_version
from webapp.conversations.models import Conversation
from webapp.ratings.models import Rating
from webapp.results.state import Reads, data_state
from webapp.runs.selectors.metrics import versions_used
from webapp.studies.models import Study
from webapp.transfer.exporters.base import ExportOptions, conversations_included
from webapp.transfer.exporters.metrics import measured

FORMAT = 1
"""Of the package; raised when an earlier Confab could not read it back."""
_LIBRARIES = (
    *("Django", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "statsmodels"),
    *("torch", "transformers"),
)


def data_as_of(study: Study) -> str:
    """Return when the newest of the study's data came or changed, ISO 8601, UTC."""
    chats = Conversation.objects.filter(study=study).aggregate(newest=Max("updated_at"))
    of_tasks = Rating.objects.filter(participant__study=study).aggregate(newest=Max("updated_at"))
    people = study.participants.aggregate(newest=Max("updated_at"))
    newest = [one["newest"] for one in (chats, of_tasks, people) if one["newest"] is not None]
    return max(newest, default=study.created_at).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions_of(study: Study, options: ExportOptions, *, as_of: str) -> dict[str, Any]:
    """Return the versions of everything that the data depend on."""
    reads: tuple[Reads, ...] = ("metrics",)
    state = data_state(
        study,
        reads,
        include_synthetic=options.include_synthetic,
        include_failed=options.include_failed,
        without=options.without,
    )
    metrics = versions_used(conversations_included(study, options).order_by())
    columns = _columns_of_metrics(study)
    return {
        "package": FORMAT,
        "confab": {"version": VERSION, "commit": commit()},
        "python": platform.python_version(),
        "database": {"kind": connection.vendor, "version": _database_version()},
        "libraries": {name: found for name in _LIBRARIES if (found := package_version(name))},
        "study": {
            "key": study.key,
            "protocol": study.protocol,
            "version": study.version.number,
            "state": study.state,
            "is_imported": study.is_imported,
        },
        "data": {"as_of": as_of, "state": state.digest, **asdict(options)},
        "metrics": [
            {"name": one.name, "version": one.version, "key": one.key, **columns.get(one.key, {})}
            for one in sorted((one for one, _ in metrics), key=lambda one: (one.name, one.key))
        ],
    }


def _columns_of_metrics(study: Study) -> dict[str, dict[str, Any]]:
    """Return settings and columns by the metric's key; of each metric one version is there."""
    of_turns = {
        version.key: [column.name for column in columns]
        for version, columns in measured(study, "turn")
    }
    return {
        version.key: {
            "params": version.params,
            "columns": [column.name for column in columns],
            "turn_columns": of_turns[version.key],
        }
        for version, columns in measured(study, "conversation")
    }


def versions_json(found: dict[str, Any]) -> str:
    """Return them as JSON."""
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _database_version() -> str:
    return ".".join(map(str, connection.get_database_version()))


def versions_differ(found: Any) -> list[dict[str, str]]:
    """Return the software versions that differ from the package's: `what`, in the `package` and `here`."""
    if not isinstance(found, dict):
        return []
    made: dict[str, Any] = {"Python": found.get("python")}
    here: dict[str, Any] = {"Python": platform.python_version()}
    confab = found.get("confab")
    if isinstance(confab, dict):
        made |= {"Confab": confab.get("version"), "Confab's commit": confab.get("commit")}
        here |= {"Confab": VERSION, "Confab's commit": commit()}
    libraries = found.get("libraries")
    if isinstance(libraries, dict):
        made |= libraries
        here |= {str(name): package_version(str(name)) or "" for name in libraries}
    return [
        {"what": str(name), "package": str(value), "here": str(here[name] or "")}
        for name, value in made.items()
        if value and value != here[name]
    ]
