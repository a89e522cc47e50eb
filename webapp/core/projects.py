"""Projects: members, project of a request, roles, and moves of studies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from chatbots.text import is_blank, quote
from webapp.core.audit_trail import (
    MEMBER_ROLES,
    PROJECT_CREATE,
    PROJECT_LIMIT,
    PROJECT_RENAME,
    ROLE_SAVE,
    record,
    vocabulary_add,
)
from webapp.core.errors import Refused
from webapp.core.models import Project, ProjectRole
from webapp.core.project_scope import USUAL_PROJECT, in_project
from webapp.core.rights import Right, account_groups, may_in, permissions_by_project

SESSION_KEY = "project"
"""Key of the session's project, which the switcher sets."""
SUGGESTED_ROLES = {
    "Owner": tuple(Right),
    "Researcher": (Right.READ, Right.RUN, Right.BOTS, Right.ADMINISTER),
    "Reader": (Right.READ,),
    "Payer": (Right.READ, Right.PRIVATE, Right.PAY),
}
LONGEST_ROLE_NAME = 60
LARGEST_COST = 1_000_000_000
LARGEST_DISK_MB = 1_000_000_000

vocabulary_add("project", lambda: set(projects_all().values_list("key", flat=True)))


def project_by_key(key: str) -> Project | None:
    """Return the project with this key, if there is one."""
    return Project.objects.filter(key=key).first()


def projects_all(key: str | None = None) -> QuerySet[Project]:
    """Return all projects of the server, by key; or the one with this key."""
    projects = Project.objects.order_by("key")
    return projects if key is None else projects.filter(key=key)


def projects_of(user: Any) -> list[Project]:
    """Return the projects that the user can read, the usual one first.

    All projects for a superuser.
    """
    projects = Project.objects.all()
    if not user.is_superuser:
        projects = projects.filter(key__in=readable_projects(user))
    return sorted(projects, key=lambda project: (project.key != USUAL_PROJECT, project.name))


def candidate_projects(request: HttpRequest) -> Iterator[str]:
    """Yield the keys of possible projects of a staff request, best first.

    The preferred project is the one that the session names, else the usual one, else the first one of the user. At
    least one key is yielded.
    """
    user: Any = request.user
    chosen = request.session.get(SESSION_KEY, USUAL_PROJECT)
    if user.is_superuser:
        yield chosen
        yield from Project.objects.exclude(key=chosen).values_list("key", flat=True)
        return
    keys = readable_projects(user)
    yield from sorted(keys, key=lambda key: (key != chosen, key != USUAL_PROJECT, key)) or [USUAL_PROJECT]


def readable_projects(user: Any) -> list[str]:
    """Return the keys of the projects that the user's roles let them read.

    Also for a superuser.
    """
    return [key for key in {USUAL_PROJECT, *permissions_by_project(user)} if may_in(user, key, Right.READ)]


def project_choose(*, request: HttpRequest, key: str) -> Project:
    """Make this the project of the session.

    Raises:
        Refused: `no_project`: it does not exist, or the user is not a member.
    """
    project = next((project for project in projects_of(request.user) if project.key == key), None)
    if project is None:
        raise Refused("no_project", f"You are not a member of a project {quote(key)}.")
    request.session[SESSION_KEY] = project.key
    return project


def project_create(*, actor: User, key: str, name: str, **limits: Any) -> Project:
    """Create a project with the suggested roles; the actor becomes its owner.

    Args:
        limits: as those of `project_limit`; without them there is no limit.

    Raises:
        Refused: `rights`: the actor does not administer the server. `bad_project`: the name is blank. `taken`.
            `bad_limit`.
    """
    if not may_in(actor, USUAL_PROJECT, Right.ADMINISTER):
        raise Refused("rights", "Only administrators of the server can create projects.")
    if is_blank(name):
        raise Refused("bad_project", "A project needs a name.")
    with transaction.atomic():
        project, is_new = Project.objects.get_or_create(key=key, defaults={"name": name.strip()})
        if not is_new:
            raise Refused("taken", f"The key {quote(key)} is not available. Choose another key.")
        for role_name, rights in SUGGESTED_ROLES.items():
            _add_role(project, role_name, rights)
        owners = Group.objects.get(project_role__project=project, project_role__name="Owner")
        actor.groups.add(owners)
        record(PROJECT_CREATE, project)
        record(MEMBER_ROLES, actor, project=project.key, roles=[owners.pk])
        if limits:
            project_limit(project=project, **limits)
    return project


def project_limit(*, project: Project, **limits: float | None) -> None:
    """Set or remove limits of a project. Callers check that the actor administers the server.

    Args:
        limits: `monthly_cost_limit`, in the currency of the prices; `disk_limit_mb`. None removes a limit; what is
            missing stays.

    Raises:
        Refused: `bad_limit`.
    """
    cost, disk = limits.get("monthly_cost_limit"), limits.get("disk_limit_mb")
    if cost is not None and not 0 <= cost < LARGEST_COST:
        raise Refused("bad_limit", f"The cost limit is {cost:g}. It must be from 0 to {LARGEST_COST:,}.")
    if disk is not None and not 0 <= disk < LARGEST_DISK_MB:
        raise Refused("bad_limit", f"The disk limit is {disk:g} MB. It must be from 0 to {LARGEST_DISK_MB:,} MB.")
    for name, limit in limits.items():
        setattr(project, name, limit)
    with transaction.atomic():
        project.save(update_fields=[*limits, "updated_at"])
        record(PROJECT_LIMIT, project, cost_cents=None if cost is None else round(cost * 100), disk_mb=disk)


def project_rename(*, actor: User, project: Project, name: str) -> None:
    """Rename a project.

    Raises:
        Refused: `rights` or `bad_project`.
    """
    _demand_administrator(actor, project.key)
    if is_blank(name) or len(name) > 200:
        raise Refused("bad_project", "A project needs a name of 1 to 200 characters.")
    with transaction.atomic():
        Project.objects.filter(pk=project.pk).update(name=name.strip())
        record(PROJECT_RENAME, project)


def project_roles(key: str) -> QuerySet[Group]:
    """Return the roles of a project as groups, each with its rights."""
    with in_project(key):
        return account_groups()


def role_name(group: Group) -> str:
    """Return the name of a role within its project."""
    role: ProjectRole | None = getattr(group, "project_role", None)
    return role.name if role is not None else group.name


def role_save(*, actor: User, key: str, name: str, rights: Sequence[str], group: Group | None = None) -> Group:
    """Add a role to a project, or change the rights of one.

    Args:
        rights: values of `Right`; reading is always among them.
        group: role to change; None adds one.

    Raises:
        Refused: `rights`: the actor is not an owner of the project. `last_owner`: nobody would keep all rights.
            `bad_role`: the name is blank, too long or taken, or a right is unknown.
    """
    if not may_in(actor, key, *Right):
        raise Refused("rights", "Only owners of the project can change its roles.")
    known = {right.value: right for right in Right}
    if unknown := [right for right in rights if right not in known]:
        raise Refused("bad_role", f"There is no right {quote(unknown[0])}. Use: {', '.join(known)}.")
    granted = [right for right in Right if right.value in {*rights, Right.READ.value}]
    if group is not None:
        before = {permission.codename for permission in group.permissions.filter(content_type__app_label="core")}
        if (
            before == {right.value for right in Right}
            and len(granted) < len(Right)
            and not _has_other_owner(key, group)
        ):
            raise Refused(
                "last_owner",
                ("At least one role must keep all rights in this project. Give another role all rights first."),
            )
        with transaction.atomic():
            group.permissions.set(_permissions(granted))
            record(ROLE_SAVE, group, project=key, rights=granted)
        return group
    name = name.strip()
    if is_blank(name) or len(name) > LONGEST_ROLE_NAME:
        raise Refused("bad_role", f"A role needs a name of 1 to {LONGEST_ROLE_NAME} characters.")
    project = Project.objects.get(pk=key)
    if project.roles.filter(name__iexact=name).exists():
        raise Refused("bad_role", f"This project already has a role {quote(name)}.")
    with transaction.atomic():
        group = _add_role(project, name, granted)
        record(ROLE_SAVE, group, project=key, rights=granted)
    return group


def has_several_projects() -> bool:
    """Return True if there is a project besides the usual one."""
    return Project.objects.exclude(key=USUAL_PROJECT).exists()


def may_open_admin(user: Any) -> bool:
    """Return True if the user may open Django's admin.

    It shows the records of all projects.
    """
    return bool(user.is_superuser) or not has_several_projects()


def _demand_administrator(actor: User, key: str) -> None:
    if not may_in(actor, key, Right.ADMINISTER):
        raise Refused("rights", "You do not administer this project.")


def _has_other_owner(key: str, group: Group) -> bool:
    """Return True if an active member has all rights by another role."""
    names = [right.value for right in Right]
    for other in project_roles(key).exclude(pk=group.pk):
        granted = {permission.codename for permission in other.permissions.all()}
        if granted.issuperset(names) and other.user_set.filter(is_active=True, is_staff=True).exists():
            return True
    return False


def _add_role(project: Project, name: str, rights: Collection[Right]) -> Group:
    group = Group.objects.create(name=f"{project.key}: {name}")
    group.permissions.set(_permissions(rights))
    ProjectRole.objects.create(project=project, name=name, group=group)
    return group


def _permissions(rights: Collection[Right]) -> QuerySet[Permission]:
    return Permission.objects.filter(content_type__app_label="core", codename__in=[right.value for right in rights])
