"""Cost and disk space of projects, next to their limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from webapp.bots.project_spending import ProjectBudget, project_budget
from webapp.core.models import Project
from webapp.core.project_disk import MB, disk_use

WARN_FROM = 0.8
"""Share of a limit from which pages warn."""


@dataclass(frozen=True, slots=True)
class ProjectUsage:
    """Use of one project.

    Attributes:
        budget: cost of paid replies in this month.
        files: bytes of each kind of files.
    """

    project: Project
    budget: ProjectBudget
    files: dict[str, int]

    @property
    def n_bytes(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    @property
    def limit_bytes(self) -> int | None:
        """Most bytes; None: no limit."""
        return None if self.project.disk_limit_mb is None else self.project.disk_limit_mb * MB

    @property
    def warnings(self) -> list[tuple[bool, str]]:
        """Limits that are reached (True) or nearly reached, in words."""
        return [*self._warnings()]

    def _warnings(self) -> Iterator[tuple[bool, str]]:
        cost, disk = self.budget.limit, self.limit_bytes
        if cost is not None and self.budget.spent >= cost:
            yield True, f"has reached its cost limit for {self.budget.month}: paid bots no longer reply."
        elif cost is not None and self.budget.spent >= WARN_FROM * cost:
            yield False, f"has used {self.budget.spent / cost:.0%} of its cost limit for {self.budget.month}."
        if disk is not None and self.n_bytes >= disk:
            yield True, "has reached its disk limit: no new uploads, exports or reports."
        elif disk is not None and self.n_bytes >= WARN_FROM * disk:
            yield False, f"has used {self.n_bytes / disk:.0%} of its disk limit."


def project_usage(projects: Iterable[Project]) -> list[ProjectUsage]:
    """Return the use of these projects."""
    return [ProjectUsage(project, project_budget(project), disk_use(project.key)) for project in projects]
