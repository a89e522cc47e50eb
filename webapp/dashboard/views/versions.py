"""Page of a study's versions, each with its changes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.core.rights import Right
from webapp.dashboard.access import needs
from webapp.dashboard.context import page
from webapp.dashboard.views.study import study_of
from webapp.studies.differences import versions_changed


@require_safe
@needs(Right.ADMINISTER)
def versions(request: HttpRequest, key: str) -> HttpResponse:
    """Show the newest versions, the newest first, each with what it changed."""
    study = study_of(key)
    return page(request, "versions.html", "studies", study=study, versions=versions_changed(study))
