"""Active project of a request, job or command, and its managers.

The managers return only the active project's rows.

A staff request, an API call and a job have an active project: their queries return nothing else. Participants' pages,
commands and the server's own work have none and see every project.

A page of the dashboard begins undecided (`UNDECIDED`). If it queries before its rights are checked, the query raises
`ProjectUndecided`, so a route that forgets the check fails instead of showing another project's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from django.db import models
from django.db.models import Exists, OuterRef, Q, QuerySet

USUAL_PROJECT = "default"
"""Key of the project that every installation has."""
UNDECIDED = ""

_active: ContextVar[str | None] = ContextVar("confab_project", default=None)

M = TypeVar("M", bound=models.Model)


class ProjectUndecided(RuntimeError):
    """Raised if a staff route queries before its rights are checked."""


def active_project() -> str | None:
    """Return the key of the active project.

    None if all projects are visible.

    Raises:
        ProjectUndecided: the rights of this staff route have not been checked.
    """
    key = _active.get()
    if key == UNDECIDED:
        raise ProjectUndecided("check the rights of this route first (webapp/dashboard/navigation.py: requires)")
    return key


def project_of_new_rows() -> str:
    """Return the key of the project that new rows belong to."""
    return _active.get() or USUAL_PROJECT


def enter_project(key: str | None) -> None:
    """Make this the active project for the rest of the request.

    Until another one is entered.
    """
    _active.set(key)


def leave_project(**_kwargs: Any) -> None:
    """Make all projects visible again (receiver of `request_started` and `request_finished`)."""
    _active.set(None)


@contextmanager
def in_project(key: str | None) -> Iterator[None]:
    """Make this the active project within the block; None shows all projects."""
    token = _active.set(key)
    try:
        yield
    finally:
        _active.reset(token)


class ProjectManager(models.Manager[M]):
    """Manager of the active project's rows.

    It returns all rows if no project is active.

    The model's `project_paths` name its owner: `project` for a row with its own foreign key, else foreign keys to
    models with one, such as `study` or `selfplay__run`. Several are alternatives. `shared_rows`, if the model has it,
    is the condition of rows that every project sees. (A related manager is built without arguments, so both are
    attributes of the model.) `_base_manager` and `everywhere` of a model are not restricted.

    `study.conversations` of a study in the active project needs no condition. The database would otherwise check the
    project of every row, which takes most of the time of a page about 100,000 conversations.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let a prefetch check every row: Django uses the first owner's manager for owners of any project."""
        super().__init_subclass__(**kwargs)
        prefetch = cls.__dict__.get("get_prefetch_querysets")
        if prefetch is not None:  # `cls` is a related manager

            def get_prefetch_querysets(self: Any, instances: Any, querysets: Any = None) -> Any:
                return prefetch(self, instances, querysets or [self.model._default_manager.all()])

            cls.get_prefetch_querysets = get_prefetch_querysets  # type: ignore[attr-defined]

    def get_queryset(self) -> QuerySet[M]:
        rows = super().get_queryset()
        key = active_project()
        return rows if key is None or self._owner_is_in(key) else rows.filter(self._belongs_to(key))

    def _owner_is_in(self, key: str) -> bool:
        """Return True for the related manager of an owner that is itself in the project."""
        owner, field = getattr(self, "instance", None), getattr(self, "field", None)
        is_owner = field is not None and field.name in self.model.project_paths  # type: ignore[attr-defined]
        return is_owner and getattr(owner, "project_id", None) == key

    def _belongs_to(self, key: str) -> Q:
        """Return the condition without joins.

        `select_for_update` would lock joined rows, too.
        """
        model: Any = self.model
        conditions = [model.shared_rows] if hasattr(model, "shared_rows") else []
        for path in model.project_paths:
            first, _, rest = path.partition("__")
            if first == "project":
                conditions.append(Q(project=key))
                continue
            field = model._meta.get_field(first)
            owner: Any = field.related_model
            if not rest:
                owned = owner._base_manager.filter(project=key)
                conditions.append(Q(**{f"{first}__in": owned.values("pk")}))
            else:  # a reverse relation with too many rows for a list
                through = owner._base_manager.filter(
                    **{field.remote_field.name: OuterRef("pk"), f"{rest}__project": key}  # type: ignore[union-attr]
                )
                conditions.append(Q(Exists(through)))
        return reduce(or_, conditions)
