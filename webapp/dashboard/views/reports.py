"""The page of replies that people reported and filters marked."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from webapp.conversations.services import reports_see
from webapp.core.speaking import plural
from webapp.dashboard.access import staff_only
from webapp.dashboard.reports import marks_of_study, reports_page, reports_unseen
from webapp.dashboard.views.study import study_of, study_page


@require_http_methods(["GET", "HEAD", "POST"])
@staff_only
def reports(request: HttpRequest, key: str) -> HttpResponse:
    """Show the study's reports and marks, or note that reports were seen: one (`seen`), or all."""
    study = study_of(key)
    if request.method == "POST":
        which = request.POST.get("seen", "")
        wanted = [int(which)] if which.isdecimal() and len(which) < 19 else None
        if wanted is None and which != "all":
            return redirect("dashboard:study_reports", study.key)
        n = reports_see(study=study, reports=wanted, by=request.user.get_username())
        said = plural(n, "%(n)d report was marked as seen.", "%(n)d reports were marked as seen.")
        messages.success(request, said % {"n": n})
        return redirect("dashboard:study_reports", study.key)
    return study_page(
        request,
        "reports.html",
        study,
        "reports",
        reports=reports_page(study, request.GET.get("page", "")),
        n_unseen=reports_unseen([study]).get(study.pk, 0),
        marks=marks_of_study(study),
        takes_reports=study.values.comfort.lets_report,
    )
