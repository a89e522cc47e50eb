"""Settings: the audit log of the project, its check, and its export."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from webapp.audit.chain import chain_check, pending_write
from webapp.audit.selectors import chain_state, entries_matching
from webapp.core.audit_trail import DOWNLOAD, record
from webapp.core.project_scope import project_of_new_rows
from webapp.core.rights import Right
from webapp.dashboard.audit_log import PAGE, AuditForm, entry_rows, log_csv
from webapp.dashboard.navigation import post_view, read_view
from webapp.dashboard.views.system import page_of_settings


@read_view(Right.ADMINISTER)
def audit(request: HttpRequest) -> HttpResponse:
    """Show the newest matching entries, and whether the chain is intact."""
    form = AuditForm(request.GET)
    before = _sequence(request.GET.get("before", ""))
    matching = list(entries_matching(form.entry_filter, before=before)[: PAGE + 1]) if form.is_valid() else []
    entries = matching[:PAGE]
    query = request.GET.copy()
    query.pop("before", None)
    first_page = f"?{query.urlencode()}"
    if len(matching) > PAGE:
        query["before"] = str(entries[-1].sequence)
    return page_of_settings(
        request,
        "audit.html",
        "audit",
        status=400 if form.errors else 200,
        form=form,
        rows=entry_rows(entries),
        state=chain_state(),
        months=settings.CONFAB_AUDIT_MONTHS,
        is_filtered=any(request.GET.get(name) for name in form.fields),
        newest=first_page if before is not None else "",
        older=f"?{query.urlencode()}" if len(matching) > PAGE else "",
        query=first_page,
    )


@read_view(Right.ADMINISTER)
def audit_csv(request: HttpRequest) -> HttpResponseBase:
    """Send the matching entries as CSV."""
    form = AuditForm(request.GET)
    if not form.is_valid():
        return audit(request)
    record(DOWNLOAD, file="audit_log")
    headers = {
        "Content-Disposition": f'attachment; filename="audit-{project_of_new_rows()}.csv"',
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingHttpResponse(log_csv(form.entry_filter), content_type="text/csv; charset=utf-8", headers=headers)


@post_view(Right.ADMINISTER)
def audit_check(request: HttpRequest) -> HttpResponse:
    """Write the waiting entries and check the chain now."""
    pending_write()
    check = chain_check(project_of_new_rows())
    if check.problem:
        messages.error(request, f"The audit log was changed: {check.problem}.")
    else:
        messages.success(request, f"The audit log is intact: {check.n_entries:,} entries were checked.")
    return redirect("dashboard:audit")


def _sequence(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
