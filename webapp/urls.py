"""Wiring of addresses: participant pages, dashboard, admin, health."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from webapp.core.views import favicon, healthz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("favicon.ico", favicon),
    path("admin/", admin.site.urls),
    path("dashboard/", include("webapp.dashboard.urls")),
    path("", include("webapp.participant.urls")),
]
handler404 = "webapp.core.views.not_found"
handler500 = "webapp.core.views.server_error"
