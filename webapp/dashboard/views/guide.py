"""The guide inside the dashboard."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse

from webapp.dashboard.guide import guide_titles, render_guide
from webapp.dashboard.navigation import page, read_view


@read_view()
def guide(request: HttpRequest, name: str) -> HttpResponse:
    """Show a page of the guide."""
    try:
        guide_page = render_guide(name)
    except KeyError:
        raise Http404(f"no page {name}") from None
    return page(request, "guide.html", "guide", guide_page=guide_page, titles=guide_titles().items())
