"""Rights in the stock admin: they, not the permissions of single models, decide there too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest

from webapp.core.rights import Right, may


class ByRights:
    """Mixin of a model's admin or inline: who sees, who adds and changes, who deletes."""

    right_to_view = Right.READ
    right_to_change = Right.ADMINISTER
    right_to_delete = Right.ADMINISTER

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return True if the app is listed at all."""
        return may(request.user, self.right_to_view)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if rows are shown."""
        return may(request.user, self.right_to_view)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if rows can be added."""
        return may(request.user, self.right_to_view, self.right_to_change)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if rows can be changed."""
        return may(request.user, self.right_to_view, self.right_to_change)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if rows can be deleted."""
        return may(request.user, self.right_to_view, self.right_to_delete)


class ReadOnly(ByRights):
    """Seen and, with the right to, deleted; never added or changed."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def private_search(request: HttpRequest, fields: Sequence[str], *private: str) -> list[str]:
    """Return the fields that a list is searched by: participants' ids only for users who may see them."""
    return [*fields, *(private if may(request.user, Right.PRIVATE) else ())]
