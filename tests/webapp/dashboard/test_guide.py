"""The guide inside the dashboard: a page for every page, and links that lead somewhere."""

import inspect
import re

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client, RequestFactory
from django.urls import reverse

from webapp.dashboard import urls
from webapp.dashboard.guide import GUIDE_OF, guide_titles, render_guide
from webapp.dashboard.views.builder.step import STEPS, WITHIN

NO_PAGES = {
    *("theme", "guide", "study_file", "study_people_now", "study_people_state", "study_console_now", "study_links"),
    *("study_links_csv", "study_pay_mturk", "study_report_file", "study_simulated_file", "fit_download"),
    *("study_total", "run_total", "study_export", "study_package", "study_export_file", "run_export", "jobs_live"),
    *("job_live", "benchmark_csv", "judges_file", "audit_csv", "system_live", "alerts_live", "study_build_step"),
}
"""Routes that answer GET with a file, a fragment or a redirection; steps of the builder have their own names."""


def test_every_page_of_the_dashboard_has_a_page_of_the_guide() -> None:
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    pages = 0
    for route in urls.urlpatterns:
        is_page = hasattr(route.callback, "rights") and not inspect.iscoroutinefunction(route.callback)
        if not is_page or route.name is None or route.name in NO_PAGES:
            continue
        if route.callback(request).status_code != 405:  # it takes more than POST
            assert route.name in GUIDE_OF, route.name
            pages += 1
    assert pages > 40
    assert {step.name for step in (*STEPS, *WITHIN)} <= set(GUIDE_OF)
    for place in set(GUIDE_OF.values()):
        name, _hash, anchor = place.partition("#")
        assert not anchor or anchor in render_guide(name).anchors, place


def test_links_between_pages_of_the_guide_lead_to_their_headings() -> None:
    n_links = 0
    start = reverse("dashboard:guide", args=["x"]).removesuffix("x/")
    for name in guide_titles():
        for href in re.findall(r'href="([^"]+)"', render_guide(name).html):
            assert not href.endswith(".md"), f"{name}: {href}"
            if href.startswith(start):
                page, _hash, anchor = href.removeprefix(start).partition("#")
                assert not anchor or anchor in render_guide(page.rstrip("/")).anchors, f"{name}: {href}"
                n_links += 1
    assert n_links > 100


@pytest.mark.django_db
def test_the_guide_is_for_staff_and_pages_link_to_it(staff: Client, client: Client) -> None:
    address = reverse("dashboard:guide", args=["guide/reading"])
    assert f'href="{address}#the-tour"' in staff.get(reverse("dashboard:home")).content.decode()
    page = staff.get(address).content.decode()
    assert 'id="leaderboard"' in page
    assert "&lt;!--" not in page
    assert client.get(address).status_code == 302
    assert staff.get(reverse("dashboard:guide", args=["../README"])).status_code == 404
