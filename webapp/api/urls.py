"""Addresses of the API: its calls, and `openapi.json`, which describes them."""

from __future__ import annotations

from django.urls import path

from chatbots.installation import VERSION
from webapp.api.errors import Api, Bodies, PerToken, handlers_add
from webapp.api.routes import conversations, jobs, results, runs, server, studies

api = Api(
    title="Confab",
    version=VERSION,
    description="Studies, conversations, jobs and results of a Confab server. Every call needs a token: "
    "`Authorization: Bearer confab_…`, made on the page Tokens for programs or by `api_token make`. A call that fails "
    "answers with the schema `Failed`, whatever the reason; so does a path without a call (404) and a method that a "
    "call does not take (405, with the header `Allow`).",
    urls_namespace="api",
    docs_url=None,  # its page loads scripts from elsewhere
    throttle=[PerToken()],
    parser=Bodies(),
)
handlers_add(api)
# The pages come before the results: of two addresses that fit, the first one is called.
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
):
    api.add_router("", router)

urlpatterns = [path("", api.urls)]
