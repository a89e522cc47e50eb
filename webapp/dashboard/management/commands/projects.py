"""`projects list`; `projects create KEY --name NAME --owner USER`; `projects limit KEY --cost-limit 50`."""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.contrib.auth.models import User

from chatbots.text import quote
from webapp.core.management.base import ConfabCommand, Usage
from webapp.core.project_disk import MB
from webapp.core.projects import project_by_key, project_create, project_limit, projects_all
from webapp.insights.project_usage import ProjectUsage, project_usage


class Command(ConfabCommand):
    help = "List projects with their cost and disk space, create them, and set their limits."

    def add_own_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", choices=["list", "create", "limit"])
        parser.add_argument("key", nargs="?", help="key of the project to create or to limit")
        parser.add_argument("--name", help="name of the new project")
        parser.add_argument("--owner", metavar="USER", help="administrator of the server who becomes its first owner")
        parser.add_argument(
            "--cost-limit",
            type=_limit,
            metavar="AMOUNT",
            help="most that paid replies may cost in a calendar month (UTC), in the prices' currency; none: no limit",
        )
        parser.add_argument(
            "--disk-limit-mb", type=_limit, metavar="MB", help="most that its files may take; none: no limit"
        )

    def run(self, **options: Any) -> list[dict[str, Any]]:
        requested = {"monthly_cost_limit": options["cost_limit"], "disk_limit_mb": options["disk_limit_mb"]}
        limits = {
            name: None if math.isnan(limit) else int(limit) if name == "disk_limit_mb" else limit
            for name, limit in requested.items()
            if limit is not None
        }
        if options["verb"] == "list":
            return [_as_dict(usage) for usage in project_usage(projects_all())]
        if not options["key"]:
            raise Usage(f"name the project: projects {options['verb']} KEY")
        if options["verb"] == "create":
            project = project_create(
                actor=_user(options["owner"]), key=options["key"], name=options["name"] or options["key"], **limits
            )
        else:
            known_project = project_by_key(options["key"])
            if known_project is None:
                raise LookupError(f"there is no project {quote(options['key'])}; see `projects list`")
            if not limits:
                raise Usage("set --cost-limit or --disk-limit-mb")
            project = known_project
            project_limit(project=project, **limits)
        return [_as_dict(usage) for usage in project_usage([project])]

    def present(self, result: list[dict[str, Any]]) -> None:
        for project in result:
            cost_limit = "no limit" if project["cost_limit"] is None else f"limit {project['cost_limit']:g}"
            disk_limit = "no limit" if project["disk_limit_mb"] is None else f"limit {project['disk_limit_mb']:,} MB"
            self.stdout.write(
                f"{project['key']}  {project['name']}: "
                f"{project['spent']:.6g} spent in {project['month']} ({cost_limit}), "
                f"{project['disk_mb']:,.1f} MB of files ({disk_limit})"
            )


def _as_dict(usage: ProjectUsage) -> dict[str, Any]:
    return {
        "key": usage.project.key,
        "name": usage.project.name,
        "month": usage.budget.month,
        "spent": usage.budget.spent,
        "cost_limit": usage.budget.limit,
        "disk_mb": usage.n_bytes / MB,
        "disk_limit_mb": usage.project.disk_limit_mb,
    }


def _user(username: str | None) -> User:
    if not username:
        raise Usage("name the first owner: --owner USER")
    user = User.objects.filter(username=username).first()
    if user is None:
        raise LookupError(f"there is no user {quote(username)}")
    return user


def _limit(text: str) -> float:
    """Read a limit; "none" is NaN."""
    if text == "none":
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"{quote(text)} is no limit; enter a number, or none")
    return value
