"""URLs of the API: routes, and `openapi.json`, which describes them."""

from __future__ import annotations

from django.urls import path

from chatbots.installation import VERSION
from webapp.api.errors import Api, Bodies, PerToken, handlers_add
from webapp.api.routes import audit, conversations, jobs, results, runs, server, studies

api = Api(
    title="Confab",
    version=VERSION,
    description=(
        "Studies, conversations, jobs and results of a Confab server. Every call needs a token in the header "
        "`Authorization: Bearer confab_…`; create one on the page Tokens or with `api_token make`. All errors "
        "have the schema `Failed`, including unknown paths (404) and methods that a path does not accept (405, with "
        "the header `Allow`)."
    ),
    urls_namespace="api",
    docs_url=None,  # its page would load scripts from another server
    throttle=[PerToken()],
    parser=Bodies(),
)
handlers_add(api)
# Pages precede results: the first of two matching paths is called.
for router in (
    studies.router,
    conversations.router,
    runs.router,
    jobs.metrics_router,
    jobs.router,
    studies.pages_router,
    results.reports_router,
    jobs.analyses_router,
    results.router,
    server.router,
    audit.router,
):
    api.add_router("", router)

urlpatterns = [path("", api.urls)]
