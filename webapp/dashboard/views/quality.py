"""The page Quality: flags of people, explained, and how long tasks took."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webapp.core.rights import Right, may
from webapp.dashboard.access import staff_only
from webapp.dashboard.checks_shown import checks_shown
from webapp.dashboard.plots.durations import durations_figure
from webapp.dashboard.quality_page import quality_page
from webapp.dashboard.views.jobs import job_context
from webapp.dashboard.views.study import study_of, study_page
from webapp.quality.flags.base import flag_kinds
from webapp.results.flags import flags_now


@require_safe
@staff_only
def quality(request: HttpRequest, key: str) -> HttpResponse:
    """Show the flags of a study's people; `?flag=fast` lists those with this one."""
    study = study_of(key)
    now = flags_now(study)
    flag = request.GET.get("flag", "")
    flag = flag if flag in flag_kinds else ""
    asked = request.GET.get("page", "")
    number = max(1, int(asked)) if asked.isascii() and asked.isdigit() and len(asked) < 7 else 1
    state = now.state
    found = quality_page(study, state, flag=flag, page=number) if state is not None else None

    def address(page: int) -> str:
        return f"?{urlencode({'flag': flag, 'page': page} if flag else {'page': page})}"

    return study_page(
        request,
        "quality.html",
        study,
        "quality",
        state=state,
        is_current=now.is_current,
        running=job_context(now.job, now.job.kind) if now.job is not None else None,
        found=found,
        checks=checks_shown(study, state),
        flag=flag,
        flag_title=flag_kinds.get(flag).title if flag else "",
        figure=durations_figure(state.found.get("durations", {})) if state is not None else None,
        earlier=address(number - 1),
        later=address(number + 1),
        shows_pay=may(request.user, Right.PAY),
    )
