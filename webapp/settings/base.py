"""Settings of all modes: apps, middleware, templates, security headers, languages."""

from __future__ import annotations

import os
from pathlib import Path

from csp.constants import NONE, SELF
from django.utils.translation import get_language_info, to_language

from webapp.settings.env import BASE_DIR, DATA_DIR, IS_CHECKOUT, env, folder_made, path_prefix  # noqa: F401

# What commands are called by here, for pages and messages that name one.
CONFAB_PROGRAM = "manage.py" if IS_CHECKOUT else "confab"
# Where `serve` listens.
HOST = env.text("HOST", default="127.0.0.1")
PORT = env.whole("PORT", default=8000, least=1, most=65535)
# Those of the two that are set: they come before the address that a running server keeps.
ADDRESS_SET = {name for name in ("HOST", "PORT") if os.environ.get(name, "").strip()}

DEBUG = env.flag("CONFAB_DEBUG", default=False)
ROOT_URLCONF = "webapp.urls"
ASGI_APPLICATION = "webapp.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "axes",
    "csp",
    "channels",
    "webapp.core",
    "webapp.bots",
    "webapp.studies",
    "webapp.conversations",
    "webapp.ratings.flag_store",
    "webapp.ratings",
    "webapp.jobs",
    "webapp.search",
    "webapp.results",
    "webapp.transfer",
    "webapp.pay",
    "webapp.operating",
    "webapp.participant",
    "webapp.dashboard",
    "webapp.api",
    "webapp.core.plugins",
]

MIDDLEWARE = [
    "webapp.core.middleware.RequestLogMiddleware",
    "webapp.api.errors.JsonErrorMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "webapp.core.middleware.StorableTextMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
    "webapp.core.authentication.remember_browser",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.core.pages.page_context",
            ]
        },
    }
]

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
# Where a login leads whose `next` is missing or points outside.
LOGIN_REDIRECT_URL = "dashboard:home"
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "core/locked_out.html"
# Passwords tried during a lock-out are not looked at, and do not make it longer.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
# `core/authentication.py`: the limit of an account counts in this log, and proxies are heard where declared.
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_HANDLER = "webapp.core.authentication.LoginHandler"
AXES_CLIENT_IP_CALLABLE = "webapp.core.authentication.client_address"

LANGUAGE_CODE = "en-gb"
# Participants' pages speak the language of their study (`core/language.py`), researchers' pages English.
# Each folder of `webapp/locale` is one of them (docs/guide/add_a_language.md).
LOCALE_PATHS = [Path(__file__).resolve().parent.parent / "locale"]
_TRANSLATED = (
    get_language_info(to_language(file.parts[-3])) for file in LOCALE_PATHS[0].glob("*/LC_MESSAGES/django.mo")
)
LANGUAGES = [
    ("en-gb", "English"),
    *sorted(
        ((one["code"], one["name_local"][:1].upper() + one["name_local"][1:]) for one in _TRANSLATED),
        key=lambda language: language[1],
    ),
]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# Where proxies put Confab below a path of a shared host; without slash at its end.
CONFAB_PATH_PREFIX = path_prefix(env.text("CONFAB_PATH_PREFIX", default=""))
FORCE_SCRIPT_NAME = CONFAB_PATH_PREFIX or None
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = f"{CONFAB_PATH_PREFIX}/"
STATIC_URL = f"{CONFAB_PATH_PREFIX}/static/"
folder_made(DATA_DIR, "CONFAB_DATA_DIR", is_written=False)
STATIC_ROOT = folder_made(
    Path(env.text("CONFAB_STATIC_DIR", default=str(DATA_DIR / "static"))),
    "CONFAB_STATIC_DIR",
    is_written=False,  # `collectstatic` alone writes there
)

SESSION_COOKIE_AGE = 60 * 60 * 24 * 30
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "webapp.core.pages.form_refused"
X_FRAME_OPTIONS = "DENY"
# Referrers carry at most the origin, so that no participant token leaves in one.
SECURE_REFERRER_POLICY = "strict-origin"
# Where workers reach the web server to rehearse a study; empty: where the browser that asks for it does.
CONFAB_REHEARSAL_URL = env.address("CONFAB_REHEARSAL_URL", default="").rstrip("/")
# Of files that the dashboard takes: conversations, items, results of Mechanical Turk; the commands have no limit.
CONFAB_UPLOAD_LIMIT_MB = env.whole("CONFAB_UPLOAD_LIMIT_MB", default=200, least=1)
# So many calls of the API a token may make in a time.
CONFAB_API_RATE = env.match(
    "CONFAB_API_RATE",
    default="600/m",
    pattern="[1-9][0-9]*/[smhd]",
    like="calls in a time: /s, /m, /h or /d, such as 600/m",
)
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "frame-src": [SELF],  # the builder shows the participant's pages in a frame
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
