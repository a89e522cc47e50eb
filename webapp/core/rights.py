"""Rights of staff: six Django permissions, held by role in a project.

A role is a group. Its rights apply in the role's project; a group without a project is a role of the usual project,
whose administrators also run the server.

Every page of the dashboard needs the right to read. Superusers have all six rights. These rights also decide in
Django's admin, instead of the permissions of single models.

Users cannot change their own account or accounts with rights that they lack. So they cannot extend their own rights,
not even through a new account, and the last administrator remains.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.apps import apps as installed
from django.apps.registry import Apps
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.tokens import default_token_generator
from django.db import models, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext_lazy as _

from webapp.core.audit_trail import (
    ACCOUNT_ACTIVATE,
    ACCOUNT_CREATE,
    ACCOUNT_DELETE,
    ACCOUNT_LINK,
    MEMBER_ROLES,
    record,
    vocabulary_add,
)
from webapp.core.errors import Refused
from webapp.core.project_scope import USUAL_PROJECT, in_project, project_of_new_rows


class Right(models.TextChoices):
    """Right of staff: codename of a permission of the app `core`."""

    READ = "read", _("Read studies and results")
    PRIVATE = "private", _("See private data such as recruitment ids")
    PAY = "pay", _("See outcomes and completion codes, and pay")
    RUN = "run", _("Run jobs and import data")
    BOTS = "bots", _("Add bots and secrets")
    ADMINISTER = "administer", _("Administer studies, bots and participants' data")


vocabulary_add("right", lambda: Right.values)

READY_GROUPS = {
    "Confab readers": (Right.READ,),
    "Confab analysts": (Right.READ, Right.RUN),
    "Confab payers": (Right.READ, Right.PRIVATE, Right.PAY),
    "Confab administrators": tuple(Right),
}


def may(user: Any, *rights: Right) -> bool:
    """Return True if this user is staff and has all of the rights."""
    return bool(user.is_active and user.is_staff) and all(user.has_perm(f"core.{right.value}") for right in rights)


def may_somewhere(user: Any, *rights: Right) -> bool:
    """Return True if this user has all of the rights in some project."""
    if not (user.is_active and user.is_staff):
        return False
    return may(user, *rights) or any(may_in(user, project, *rights) for project in permissions_by_project(user))


def may_in(user: Any, project: str, *rights: Right) -> bool:
    """Return True if this user has all of the rights in this project."""
    with in_project(project):
        return may(user, *rights)


def may_see_codes(user: Any) -> bool:
    """Return True if this user may read completion codes.

    These are staff who pay and staff who enter the codes.
    """
    return may(user, Right.PAY) or may(user, Right.ADMINISTER)


class ProjectBackend(ModelBackend):
    """Authentication by password, with permissions by project.

    They are those of the active project, or of the usual one if none is active.
    """

    def get_user_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        """Return the permissions that the user has without a group.

        They apply in the usual project.
        """
        return super().get_user_permissions(user_obj, obj) if project_of_new_rows() == USUAL_PROJECT else set()

    def get_group_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        """Return the permissions of the user's roles in the project."""
        if not user_obj.is_active or user_obj.is_anonymous or obj is not None:
            return set()
        if user_obj.is_superuser:
            return super().get_group_permissions(user_obj, obj)
        return permissions_by_project(user_obj).get(project_of_new_rows(), set())

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        """Return the permissions of a user's roles, by project.

        They are read once for each user object.
        """
        return {*self.get_user_permissions(user_obj, obj), *self.get_group_permissions(user_obj, obj)}


def permissions_by_project(user: Any) -> dict[str, set[str]]:
    """Return the permissions that a user's roles give, by the key of the project; read once for each user object."""
    cached: dict[str, set[str]] | None = user.__dict__.get("_confab_permissions")
    if cached is None:
        cached = {}
        rows = Permission.objects.filter(group__user=user).values_list(
            "group__project_role__project", "content_type__app_label", "codename"
        )
        for project, app, codename in rows.order_by():
            cached.setdefault(project or USUAL_PROJECT, set()).add(f"{app}.{codename}")
        user.__dict__["_confab_permissions"] = cached
    return cached


def project_ensure(using: str, apps: Apps = installed, **_kwargs: Any) -> None:
    """Create the usual project if it is missing after a migration."""
    try:
        projects = apps.get_model("core", "Project").objects.using(using)
    except LookupError:  # an earlier state of the database
        return
    projects.get_or_create(key=USUAL_PROJECT, defaults={"name": "Everything"})


def groups_ensure(using: str, apps: Apps = installed, **_kwargs: Any) -> None:
    """Create missing default groups after a migration.

    Existing groups keep their rights.
    """
    try:
        group_model = apps.get_model("auth", "Group")
        permission_model = apps.get_model("auth", "Permission")
    except LookupError:  # the tables of users are being removed
        return
    permissions = {
        permission.codename: permission
        for permission in permission_model.objects.using(using).filter(
            content_type__app_label="core", content_type__model="staffrights"
        )
    }
    if len(permissions) < len(Right):  # this app is not migrated yet and comes later
        return
    for name, rights in READY_GROUPS.items():
        group, created = group_model.objects.using(using).get_or_create(name=name)
        if created:
            group.permissions.set([permissions[right.value] for right in rights])


class ReadOnlyAdminMixin:
    """Mixin of read-only admins: rows are viewed and deleted by right.

    Reading needs the right to read, too. Rows are never added or changed.

    A `right_to_delete` of None means that nobody deletes rows here.
    """

    right_to_view = Right.READ
    right_to_delete: Right | None = Right.ADMINISTER

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return True if the app is listed at all."""
        return may(request.user, Right.READ, self.right_to_view)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if rows are shown."""
        return may(request.user, Right.READ, self.right_to_view)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if rows can be deleted."""
        rights = (Right.READ, self.right_to_view, self.right_to_delete)
        return self.right_to_delete is not None and may(request.user, *filter(None, rights))


def private_search(request: HttpRequest, fields: Sequence[str], *private: str) -> list[str]:
    """Return the search fields of a list.

    Participants' ids are included only for users who may see them.
    """
    return [*fields, *(private if may(request.user, Right.PRIVATE) else ())]


def accounts() -> QuerySet[User]:
    """Return the members of the active project, active accounts first.

    In the usual project these are all accounts of staff.
    """
    staff = User.objects.filter(is_staff=True)
    if (project := project_of_new_rows()) != USUAL_PROJECT:
        staff = staff.filter(groups__project_role__project=project).distinct()
    return staff.prefetch_related("groups__project_role").order_by("-is_active", "username")


def account_groups(numbers: Collection[str] | None = None) -> QuerySet[Group]:
    """Return the roles of the active project with their rights.

    Args:
        numbers: primary keys of groups, as a form sends them; None returns all roles.
    """
    project = project_of_new_rows()
    belongs = models.Q(project_role__project=project)
    if project == USUAL_PROJECT:
        belongs |= models.Q(project_role=None)
    groups = Group.objects.filter(belongs).order_by("project_role__pk", "name").select_related("project_role")
    groups = groups.prefetch_related("permissions")
    if numbers is None:
        return groups
    return groups.filter(pk__in=[int(number[:9]) for number in numbers if number.isascii() and number.isdigit()])


def account_add(*, actor: User, username: str, email: str, groups: Collection[Group]) -> User:
    """Create an account without a password, with roles of the project.

    In a project other than the usual one, an existing account with this name becomes a member instead.

    Raises:
        Refused: `rights`: a role has rights that the actor lacks. `own`: it is the actor's own account.
    """
    _refuse_more_rights(actor, groups)
    with transaction.atomic():
        existing = User.objects.filter(username=username, is_staff=True).first()
        if existing is not None and project_of_new_rows() != USUAL_PROJECT:
            if existing.pk == actor.pk:
                raise Refused("own", "You are a member of this project already.")
            existing.groups.add(*groups)
            _record_roles(existing)
            return existing
        user = User(username=username, email=email, is_staff=True)
        user.set_unusable_password()
        user.save()
        user.groups.set(groups)
        _record_roles(user)
    return user


def account_groups_set(*, actor: User, user: User, groups: Collection[Group]) -> None:
    """Give an account exactly these roles of the active project.

    Its roles in other projects stay.

    Raises:
        Refused: as described in the module.
    """
    with transaction.atomic():
        _lock(actor, user)
        _refuse_more_rights(actor, groups)
        user.groups.remove(*account_groups())
        user.groups.add(*groups)
        _record_roles(user)


def _record_roles(user: User) -> None:
    roles = user.groups.filter(pk__in=account_groups().order_by().values("pk"))
    record(MEMBER_ROLES, user, project=project_of_new_rows(), roles=list(roles.values_list("pk", flat=True)))


def record_account(instance: User, created: bool, **_signal: Any) -> None:
    """Record an account of staff that was created, by any page or command (receiver)."""
    if created and instance.is_staff:
        record(ACCOUNT_CREATE, instance, superuser=instance.is_superuser)


def account_activate(*, actor: User, user: User, is_active: bool) -> None:
    """Activate or deactivate an account.

    A deactivated account's sessions and tokens end at once.

    Raises:
        Refused: as described in the module.
    """
    _refuse_outside_server()
    with transaction.atomic():
        _lock(actor, user)
        User.objects.filter(pk=user.pk).update(is_active=is_active)
        record(ACCOUNT_ACTIVATE, user, is_active=is_active)


def account_delete(*, actor: User, user: User) -> None:
    """Delete a deactivated account with its tokens.

    Its work stays.

    Raises:
        Refused: `active`, or as described in the module.
    """
    _refuse_outside_server()
    with transaction.atomic():
        _lock(actor, user)
        if User.objects.get(pk=user.pk).is_active:
            raise Refused("active", "Deactivate the account first.")
        record(ACCOUNT_DELETE, user)
        user.delete()


def password_path(*, actor: User, user: User) -> str:
    """Return the path of a page to set a password.

    It works once and expires after three days.

    Raises:
        Refused: `server`: the account has been used, or also belongs to another project. Or as described in the module.
    """
    is_elsewhere = user.groups.exclude(pk__in=account_groups().order_by().values("pk")).exists()
    is_new = user.last_login is None and not is_elsewhere
    if not is_new:
        _refuse_outside_server()
    with transaction.atomic():
        _lock(actor, user)
        record(ACCOUNT_LINK, user)
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("set_password", args=[uid, default_token_generator.make_token(user)])


def _lock(actor: User, user: User) -> None:
    """Lock both accounts in a fixed order, and check the module's rules."""
    locked = {
        account.pk: account
        for account in User.objects.select_for_update().filter(pk__in=[actor.pk, user.pk]).order_by("pk")
    }
    if user.pk not in locked or actor.pk not in locked or not may(locked[actor.pk], Right.ADMINISTER):
        raise Refused("gone", "This account no longer exists, or you can no longer change it.")
    if user.pk == actor.pk:
        raise Refused("own", "You cannot change your own account here. Ask another administrator.")
    if locked[user.pk].is_superuser and not locked[actor.pk].is_superuser:
        raise Refused("rights", "Only a superuser can change the account of a superuser.")
    active = User(pk=user.pk, is_active=True)  # what a deactivated account may do once it is active again
    if not active.get_all_permissions() <= locked[actor.pk].get_all_permissions():
        raise Refused("rights", "This account has rights that you do not have.")


def _refuse_outside_server() -> None:
    if project_of_new_rows() != USUAL_PROJECT:
        raise Refused("server", "Only administrators of the server can change accounts. Ask one of them.")


def _refuse_more_rights(actor: User, groups: Collection[Group]) -> None:
    if project_of_new_rows() != USUAL_PROJECT and not may(actor, *Right):
        raise Refused("rights", "Only owners of the project, who have all rights, can change its members.")
    own_rights = actor.get_all_permissions()
    for group in groups:
        group_rights = group.permissions.values_list("content_type__app_label", "codename")
        if not {f"{app}.{name}" for app, name in group_rights} <= own_rights:
            raise Refused("rights", f"“{group.name}” has rights that you do not have.")
