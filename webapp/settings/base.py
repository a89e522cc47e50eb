"""Settings of all modes.

They cover apps, middleware, security headers, languages, bots, operation, logs, databases and queues. PostgreSQL is
used if `DATABASE_URL` is set; otherwise SQLite in the data folder, which is safe for several processes. Redis is used
for the channel layer and Celery if `REDIS_URL` is set; otherwise the memory of one process, and files in the data
folder.

Secrets of recruitment platforms and of alerts (webhook, e-mail) are only here and stored nowhere.
"""

from __future__ import annotations

import contextlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import get_language_info, to_language

from webapp.settings.env import BASE_DIR, DATA_DIR, IS_CHECKOUT, env, folder_made, owner_only, path_prefix  # noqa: F401

SQLITE_OPTIONS: dict[str, Any] = {
    # Immediate: a transaction that will write queues at once, instead of failing when its snapshot is outdated.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    # Overwrite deleted data; otherwise the file would still contain texts of erased participants.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON;",
}


def databases() -> dict[str, dict[str, Any]]:
    """Return the `DATABASES` setting."""
    if default := env.database("DATABASE_URL", default={}):
        # A few lasting threads serve pages (`core/thread_pool.py`), and each keeps its connection.
        if default["ENGINE"] == "django.db.backends.sqlite3":  # as `move` creates it
            _private(Path(default["NAME"]))
            return {"default": {**default, "OPTIONS": SQLITE_OPTIONS}}
        default["CONN_MAX_AGE"] = 60
        default["CONN_HEALTH_CHECKS"] = True
        return {"default": default}
    folder_made(DATA_DIR, "CONFAB_DATA_DIR")
    file = DATA_DIR / "confab.sqlite3"
    _private(file)
    return {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": file, "OPTIONS": SQLITE_OPTIONS}}


def _private(file: Path) -> None:
    """Restrict the database's file to its owner.

    SQLite gives its additional files the same mode.
    """
    with contextlib.suppress(OSError):  # SQLite reports problems of the folder when it is used
        if not file.exists():
            file.touch(mode=0o600)
    owner_only(file, *(file.with_name(file.name + ending) for ending in ("-wal", "-shm", "-journal")))


REDIS_URL = env.redis("REDIS_URL", default="")
# Separates two installations on one Redis, in the channel layer and in Celery's queues.
CHANNEL_PREFIX = env.text("CONFAB_CHANNEL_PREFIX", default="confab")


def channel_layers() -> dict[str, dict[str, Any]]:
    """Return the `CHANNEL_LAYERS` setting.

    `default` sends work to bot hosts: one of the listening hosts takes a message, and messages wait. A full queue drops
    messages silently, so its capacity is large. `frames` sends frames to the open pages of a chat: all of them get each
    frame at once and nothing is stored, which takes Redis one command instead of five.
    """
    if REDIS_URL:
        # Longer than the layer's blocking reads (5 s); otherwise redis-py takes a quiet channel for a dead server.
        hosts = [{"address": REDIS_URL, "socket_timeout": 30}]
        return {
            "default": {
                "BACKEND": "channels_redis.core.RedisChannelLayer",
                "CONFIG": {"hosts": hosts, "capacity": 5000, "expiry": 60, "prefix": CHANNEL_PREFIX},
            },
            "frames": {
                "BACKEND": "webapp.core.page_layer.PageLayer",
                "CONFIG": {"hosts": hosts, "prefix": f"{CHANNEL_PREFIX}.frames."},
            },
        }
    in_memory = {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 5000, "expiry": 60}}
    return {"default": in_memory, "frames": in_memory}


def shared_caches() -> dict[str, dict[str, Any]]:
    """Return the `CACHES` setting.

    `default` is private to each process. `shared` counts API calls; with Redis it is common to all processes.
    """
    local_cache = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    if not REDIS_URL:
        return {"default": local_cache, "shared": {**local_cache, "LOCATION": "shared"}}
    return {
        "default": local_cache,
        "shared": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": CHANNEL_PREFIX,
        },
    }


def image_storage() -> dict[str, Any]:
    """Return the storage of participants' images.

    It is a folder of the data folder, or an S3-compatible bucket.
    """
    # Bucket for participants' images, on S3 or a compatible server; empty: the folder `images`.
    bucket = env.text("CONFAB_IMAGES_BUCKET", default="")
    # Address of that server; empty: Amazon's. Keys and region come from the variables that boto3 reads.
    endpoint = env.address("CONFAB_IMAGES_ENDPOINT", default="")
    if not bucket:
        options = {"location": DATA_DIR / "images", "file_permissions_mode": 0o600, "directory_permissions_mode": 0o700}
        return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    if find_spec("storages") is None:
        raise ImproperlyConfigured("CONFAB_IMAGES_BUCKET needs django-storages: pip install 'confab[s3]'")
    return {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {"bucket_name": bucket, "endpoint_url": endpoint or None},
    }


STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "images": image_storage(),
}

CELERY_TASK_IGNORE_RESULT = True  # progress and results are in the database
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = "default"

if REDIS_URL:
    CELERY_BROKER_URL = REDIS_URL
    CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600, "global_keyprefix": f"{CHANNEL_PREFIX}-celery-"}
else:
    folder_made(DATA_DIR, "CONFAB_DATA_DIR")
    _folder = DATA_DIR / "broker"
    for _name in ("queue", "processed", "control"):
        (_folder / _name).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_URL = "files://"  # webapp/core/file_broker.py
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_folder / "queue"),
        "data_folder_out": str(_folder / "queue"),
        "processed_folder": str(_folder / "processed"),
        "control_folder": str(_folder / "control"),
        "store_processed": False,
        "polling_interval": 0.1,
    }


# Name of the command here, for pages and messages.
CONFAB_PROGRAM = "manage.py" if IS_CHECKOUT else "confab"
# Address on which `serve` listens.
HOST = env.text("HOST", default="127.0.0.1")
PORT = env.integer("PORT", default=8000, minimum=1, maximum=65535)
# Those that are set take precedence over the address stored by a running server.
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
    "webapp.audit",
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
    "webapp.insights",
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
    "webapp.core.middleware.ProjectMiddleware",
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

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "webapp.core.rights.ProjectBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
# Target of a login whose `next` is missing or points outside.
LOGIN_REDIRECT_URL = "dashboard:home"
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "core/locked_out.html"
# Passwords tried during a lock-out are not checked and do not extend it.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
# `core/authentication.py`: the limit per account uses this log, and only declared proxies are trusted.
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_HANDLER = "webapp.core.authentication.LoginHandler"
AXES_CLIENT_IP_CALLABLE = "webapp.core.authentication.client_address"

LANGUAGE_CODE = "en-gb"
# Participants' pages are in the language of their study (`core/language.py`), researchers' pages in English. Each
# folder of `webapp/locale` is a language (docs/guide/add_a_language.md).
LOCALE_PATHS = [Path(__file__).resolve().parent.parent / "locale"]
_TRANSLATED = (
    get_language_info(to_language(file.parts[-3])) for file in LOCALE_PATHS[0].glob("*/LC_MESSAGES/django.mo")
)
LANGUAGES = [
    ("en-gb", "English"),
    *sorted(
        (
            (language["code"], language["name_local"][:1].upper() + language["name_local"][1:])
            for language in _TRANSLATED
        ),
        key=lambda language: language[1],
    ),
]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# Path on a shared host below which proxies serve Confab, without a final slash.
CONFAB_PATH_PREFIX = path_prefix(env.text("CONFAB_PATH_PREFIX", default=""))
FORCE_SCRIPT_NAME = CONFAB_PATH_PREFIX or None
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = f"{CONFAB_PATH_PREFIX}/"
STATIC_URL = f"{CONFAB_PATH_PREFIX}/static/"
folder_made(DATA_DIR, "CONFAB_DATA_DIR", is_written=False)
STATIC_ROOT = folder_made(
    Path(env.text("CONFAB_STATIC_DIR", default=str(DATA_DIR / "static"))),
    "CONFAB_STATIC_DIR",
    is_written=False,  # only `collectstatic` writes there
)

SESSION_COOKIE_AGE = 60 * 60 * 24 * 30
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "webapp.core.pages.form_refused"
X_FRAME_OPTIONS = "DENY"
# Referrers contain at most the origin, so that participant tokens do not leak.
SECURE_REFERRER_POLICY = "strict-origin"
# Address at which workers reach the web server for rehearsals; empty: that of the requesting browser.
CONFAB_BEAT_FILE = env.text("CONFAB_BEAT_FILE", default="")
CONFAB_REHEARSAL_URL = env.address("CONFAB_REHEARSAL_URL", default="").rstrip("/")
# Limit of files uploaded to the dashboard: conversations, items, results of Mechanical Turk. Commands have no limit.
CONFAB_UPLOAD_LIMIT_MB = env.integer("CONFAB_UPLOAD_LIMIT_MB", default=200, minimum=1)
# Maximum number of API calls per token and time.
CONFAB_API_RATE = env.match(
    "CONFAB_API_RATE",
    default="600/m",
    pattern="[1-9][0-9]*/[smhd]",
    like="a number of calls per time unit (/s, /m, /h or /d), such as 600/m",
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
        "frame-src": [SELF],  # the builder frames the participants' pages
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

# YAML file of configured bots; optional, and an empty name means the default one.
CONFAB_BOTS = Path(env.text("CONFAB_BOTS", default=str(DATA_DIR / "bots.yaml")))
# YAML file of metrics that need parameters (a language model, a classifier); optional.
CONFAB_METRICS = Path(env.text("CONFAB_METRICS", default=str(DATA_DIR / "metrics.yaml")))
# Environment variables with keys that bots added in the browser may use: NAME, or NAME=https://its.address.
CONFAB_BOT_KEY_VARIABLES = {
    name.strip(): address.strip()
    for name, _equals, address in (pair.partition("=") for pair in env.names("CONFAB_BOT_KEY_VARIABLES", default=[]))
}
# Folders that may contain local models of such bots.
CONFAB_MODEL_FOLDERS = [
    Path(folder).expanduser().resolve()
    for folder in env.names("CONFAB_MODEL_FOLDERS", default=[str(DATA_DIR / "models")])
]
# Python modules that register bots or metrics on import.
CONFAB_PLUGINS = env.names("CONFAB_PLUGINS", default=[])
# Device of everything that uses torch (bots, encoders, metrics, training): cpu, cuda, cuda:1.
CONFAB_DEVICE = env.match(
    "CONFAB_DEVICE",
    default="cpu",
    pattern=r"cpu|cuda(:[0-9]+)?",
    like="cpu, cuda or one of several GPUs such as cuda:1",
)
# Megabytes that all loaded bots may use together; the least recently used ones are unloaded. 0: no limit.
CONFAB_BOT_MEMORY_MB = env.integer("CONFAB_BOT_MEMORY_MB", default=0, minimum=0)
# Megabytes of keys and values that a process caches between turns for transformers bots. 0: none.
CONFAB_KEPT_TURNS_MB = env.integer("CONFAB_KEPT_TURNS_MB", default=512, minimum=0)
# Bots of pools other than "default": "gpu2=hred-ei|vhred-ei".
CONFAB_BOT_POOLS = env.pools("CONFAB_BOT_POOLS", default={})
# The web process is also the bot host, unless Redis connects it to a separate one.
CONFAB_BOT_HOST_IN_PROCESS = env.flag("CONFAB_BOT_HOST_IN_PROCESS", default=not REDIS_URL)
CONFAB_REPLY_TIMEOUT_S = env.number("CONFAB_REPLY_TIMEOUT_S", default=60.0, minimum=1.0)
# Maximum time that a reply waits for its bot's model to load, in addition to the reply's own limit.
CONFAB_LOAD_TIMEOUT_S = env.number("CONFAB_LOAD_TIMEOUT_S", default=300.0, minimum=1.0)
# Time after which a dead host is replaced; a host renews its leases three times as often.
CONFAB_REPLY_LEASE_S = env.number("CONFAB_REPLY_LEASE_S", default=12.0, minimum=1.0)
# A bot is disabled, and gets no new participants, after this many failures in a row,
CONFAB_ASIDE_IN_A_ROW = env.integer("CONFAB_ASIDE_IN_A_ROW", default=3, minimum=1)
# or after this many (more than the next number: never)
CONFAB_ASIDE_FAILED = env.integer("CONFAB_ASIDE_FAILED", default=4, minimum=1)
# among this many of its latest replies.
CONFAB_ASIDE_OF = env.integer("CONFAB_ASIDE_OF", default=10, minimum=1)

# The audit log keeps whole months for so long; 0: for ever.
CONFAB_AUDIT_MONTHS = env.integer("CONFAB_AUDIT_MONTHS", default=24, minimum=0)

# With this token /metrics is read from anywhere: "Authorization: Bearer …".
CONFAB_PROMETHEUS_TOKEN = env.text("CONFAB_PROMETHEUS_TOKEN", default="")
# Interval at which each process stores its heartbeat, load and counters; 0: never.
CONFAB_SIGN_EVERY_S = env.number("CONFAB_SIGN_EVERY_S", default=10.0)
# Free space of the data folder, in GB, below which the disk counts as low.
CONFAB_DISK_LOW_GB = env.number("CONFAB_DISK_LOW_GB", default=2.0)
# Time without progress after which a queue with waiting jobs counts as stuck.
CONFAB_QUEUE_STILL_S = env.number("CONFAB_QUEUE_STILL_S", default=300.0, minimum=1.0)

# Threads for pages, and so the maximum number of their database connections; further requests wait.
CONFAB_WEB_THREADS = env.integer("CONFAB_WEB_THREADS", default=16, minimum=1)
# Threads for sockets and bot hosts, each with a database connection; always one with SQLite.
CONFAB_SOCKET_THREADS = env.integer("CONFAB_SOCKET_THREADS", default=4, minimum=1)
# Maximum wait in line; then the client is asked to retry in a few seconds (503).
CONFAB_WEB_WAIT_S = env.number("CONFAB_WEB_WAIT_S", default=20.0)

# A researcher's token for Prolific's API; without it, decisions are made here and payments on Prolific's pages.
CONFAB_PROLIFIC_TOKEN = env.text("CONFAB_PROLIFIC_TOKEN", default="")
# Address of Prolific's API.
CONFAB_PROLIFIC_URL = env.address("CONFAB_PROLIFIC_URL", default="https://api.prolific.com")
# Secret with which Prolific signs webhook requests; without it, all of them are rejected.
CONFAB_PROLIFIC_HOOK_SECRET = env.text("CONFAB_PROLIFIC_HOOK_SECRET", default="")

# Address that gets a POST with JSON; empty: no alerts by webhook.
CONFAB_ALERT_WEBHOOK = env.address("CONFAB_ALERT_WEBHOOK", default="")
# Secret that signs this POST; empty: unsigned.
CONFAB_ALERT_SECRET = env.text("CONFAB_ALERT_SECRET", default="")
# E-mail addresses that get alerts; empty: no alerts by e-mail.
CONFAB_ALERT_EMAILS = env.mailboxes("CONFAB_ALERT_EMAILS", default=[])
# Mail server, smtp+tls://user:password@host:587; without one, e-mails go to the log.
_server = env.mail_server("CONFAB_EMAIL_URL", default="consolemail://")
EMAIL_BACKEND = _server["EMAIL_BACKEND"]
EMAIL_HOST = _server.get("EMAIL_HOST") or "localhost"
EMAIL_PORT = _server.get("EMAIL_PORT") or 25
EMAIL_HOST_USER = _server.get("EMAIL_HOST_USER") or ""
EMAIL_HOST_PASSWORD = _server.get("EMAIL_HOST_PASSWORD") or ""
EMAIL_USE_TLS = bool(_server.get("EMAIL_USE_TLS"))
EMAIL_USE_SSL = bool(_server.get("EMAIL_USE_SSL"))
EMAIL_TIMEOUT = 20
# Sender of the e-mails.
DEFAULT_FROM_EMAIL = env.mailbox("CONFAB_EMAIL_FROM", default="confab@localhost")
# Address at which researchers open Confab, for links in alerts.
CONFAB_PUBLIC_URL = env.address("CONFAB_PUBLIC_URL", default="").rstrip("/")


# Logs go to standard error, and to this file if set: one line per entry, without participants' tokens.
LOG_LEVEL = env.choice("CONFAB_LOG_LEVEL", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
LOG_FILE = env.text("CONFAB_LOG_FILE", default="")
LOG_FILE_MB = env.integer("CONFAB_LOG_FILE_MB", default=10, minimum=1)
LOG_FILES_KEPT = env.integer("CONFAB_LOG_FILES_KEPT", default=5, minimum=0)
# Format for people or for log collectors: `line` or `json`.
LOG_FORMAT = env.choice("CONFAB_LOG_FORMAT", default="line", choices=("line", "json"))
# Log each request and socket in a line with the page's name and the duration, never its address.
LOG_REQUESTS = env.flag("CONFAB_LOG_REQUESTS", default=LOG_FORMAT == "json")
# Celery would replace the root logger, and workers would log in its own format and to no file.
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "redact": {"()": "webapp.core.logs.RedactTokens"},
        "health": {"()": "webapp.core.health.HealthLogFilter"},
        "redis": {"()": "webapp.core.health.RedisOutageFilter"},
    },
    "formatters": {"line": {"()": "webapp.core.logs.LogLineFormatter", "style": LOG_FORMAT}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["redact"]}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "webapp": {"level": LOG_LEVEL},
        "chatbots": {"level": LOG_LEVEL},
        "evaluation": {"level": LOG_LEVEL},
        "webapp.core.middleware": {"level": "INFO" if LOG_REQUESTS else "WARNING"},
        "django.request": {"filters": ["health"]},
        "channels_redis.pubsub": {"filters": ["redis"]},
        "webapp.conversations.bot_host": {"filters": ["redis"]},
        # When uvicorn is started by its own command, it has handlers with its own format.
        "uvicorn": {"handlers": []},
        "uvicorn.error": {"level": "WARNING"},
        # These lines would contain addresses with participants' ids and tokens.
        "uvicorn.access": {"level": "WARNING"},
        # The file broker has no host name, and would warn each time.
        "kombu.connection": {"level": "ERROR"},
    },
}

if LOG_FILE:
    _file = Path(LOG_FILE).resolve()
    if _file.is_dir():
        raise ImproperlyConfigured(f"CONFAB_LOG_FILE is {LOG_FILE!r}, a folder; it must be a file")
    folder_made(_file.parent, "CONFAB_LOG_FILE")
    LOGGING["handlers"]["file"] = {
        "class": "webapp.core.logs.SharedRotatingFile",
        "filename": str(_file),
        "maxBytes": LOG_FILE_MB * 1_000_000,
        "backupCount": LOG_FILES_KEPT,
        "formatter": "line",
        "filters": ["redact"],
    }
    LOGGING["root"]["handlers"].append("file")
