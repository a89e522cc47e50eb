"""Rights of staff: six Django permissions, ready groups, and the admin.

The right to read underlies the others: no page of the dashboard opens without it. Superusers have all six. In the
stock admin, too, these rights decide, and not the permissions of single models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import apps as installed
from django.apps.registry import Apps
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _


class Right(models.TextChoices):
    """A permission of the app `core`, by its codename."""

    READ = "read", _("Read studies and results")
    PRIVATE = "private", _("See private data: recruitment ids")
    PAY = "pay", _("Pay: outcomes and completion codes")
    RUN = "run", _("Run jobs and import")
    BOTS = "bots", _("Add bots and secrets")
    ADMINISTER = "administer", _("Administer studies, bots and people's data")


READY_GROUPS = {
    "Confab readers": (Right.READ,),
    "Confab analysts": (Right.READ, Right.RUN),
    "Confab payers": (Right.READ, Right.PRIVATE, Right.PAY),
    "Confab administrators": tuple(Right),
}


def may(user: Any, *rights: Right) -> bool:
    """Return True if this user is staff and has all of the rights."""
    return bool(user.is_active and user.is_staff) and all(user.has_perm(f"core.{right.value}") for right in rights)


def may_see_codes(user: Any) -> bool:
    """Return True if this user may read completion codes: staff who pay and staff who set them."""
    return may(user, Right.PAY) or may(user, Right.ADMINISTER)


def groups_ensure(using: str, apps: Apps = installed, **_kwargs: Any) -> None:
    """Make the ready groups that are missing, after a migration; those there keep what they were given."""
    try:
        group_model = apps.get_model("auth", "Group")
        permission_model = apps.get_model("auth", "Permission")
    except LookupError:  # the tables of users are being taken away
        return
    permissions = {
        permission.codename: permission
        for permission in permission_model.objects.using(using).filter(
            content_type__app_label="core", content_type__model="staffrights"
        )
    }
    if len(permissions) < len(Right):  # this app is not migrated yet; its turn comes
        return
    for name, rights in READY_GROUPS.items():
        group, created = group_model.objects.using(using).get_or_create(name=name)
        if created:
            group.permissions.set([permissions[right.value] for right in rights])


class ReadOnlyAdminMixin:
    """Mixin of a model's admin or inline: seen and deleted by right; never added or changed."""

    right_to_view = Right.READ
    right_to_delete = Right.ADMINISTER

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return True if the app is listed at all."""
        return may(request.user, self.right_to_view)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if rows are shown."""
        return may(request.user, self.right_to_view)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if rows can be deleted."""
        return may(request.user, self.right_to_view, self.right_to_delete)


def private_search(request: HttpRequest, fields: Sequence[str], *private: str) -> list[str]:
    """Return the fields that a list is searched by: participants' ids only for users who may see them."""
    return [*fields, *(private if may(request.user, Right.PRIVATE) else ())]
