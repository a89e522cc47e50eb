"""Wiring of addresses: participant pages, dashboard, admin, health."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from webapp.conversations.views import chat_image
from webapp.core.views import SetPassword, SignIn, SignOut, favicon, healthz
from webapp.operating.views import metrics

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("metrics", metrics, name="metrics"),
    path("favicon.ico", favicon),
    path("login/", SignIn.as_view(), name="login"),
    path("set-password/<uidb64>/<token>/", SetPassword.as_view(), name="set_password"),
    path("logout/", SignOut.as_view(), name="logout"),
    # One login for all of it: the admin's own addresses lead here too.
    path("admin/login/", SignIn.as_view()),
    path("admin/logout/", SignOut.as_view()),
    path("admin/", admin.site.urls),
    path("dashboard/", include("webapp.dashboard.urls")),
    path("hooks/", include("webapp.pay.urls")),
    path("api/v1/", include("webapp.api.urls")),
    path("shared/", include("webapp.dashboard.shared_urls")),
    path("chat-image/<str:signed>", chat_image, name="chat-image"),
    path("", include("webapp.participant.urls")),
]
handler404 = "webapp.core.pages.not_found"
handler500 = "webapp.participant.error_page.server_error"
