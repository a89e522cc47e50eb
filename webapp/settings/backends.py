"""Database, channel layer, caches and Celery of each mode.

PostgreSQL by `DATABASE_URL`; otherwise SQLite in the data folder, safe for several processes. Redis by `REDIS_URL`
for the channel layer and for Celery; otherwise memory of one process, and files in the data folder.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from webapp.settings.env import DATA_DIR, env, folder_made, owner_only

SQLITE_OPTIONS: dict[str, Any] = {
    # Immediate: a transaction that will write takes its place in the queue at once,
    # instead of failing when it finds the snapshot outdated.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    # What is deleted is overwritten, or the file would hold the words of people who were erased.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON;",
}


def databases() -> dict[str, dict[str, Any]]:
    """Return the `DATABASES` setting."""
    if default := env.database("DATABASE_URL", default={}):
        # Pages are done by a few lasting threads (`core/thread_pool.py`), each of which keeps its connection.
        if default["ENGINE"] == "django.db.backends.sqlite3":  # as `move` makes one
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
    """Make the database's file for its owner alone; SQLite gives its additional files the same mode."""
    with contextlib.suppress(OSError):  # what is wrong with the folder, SQLite says when it is used
        if not file.exists():
            file.touch(mode=0o600)
    owner_only(file, *(file.with_name(file.name + ending) for ending in ("-wal", "-shm", "-journal")))


REDIS_URL = env.redis("REDIS_URL", default="")
# Keeps two installations on one Redis apart, in the channel layer and in Celery's queues.
CHANNEL_PREFIX = env.text("CONFAB_CHANNEL_PREFIX", default="confab")


def channel_layers() -> dict[str, dict[str, Any]]:
    """Return the `CHANNEL_LAYERS` setting.

    `default` brings work to bot hosts: one of those that listen takes a message, and messages wait for it. A full
    queue drops messages without a word, so it is made wide. `frames` brings frames to the open pages of a chat: all
    of them get each frame at once and nothing is kept, which takes Redis one command in place of five.
    """
    if REDIS_URL:
        # Longer than the layer's blocking reads (5 s), or a quiet channel would
        # look like a dead server to redis-py.
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

    `default` is each process's own. `shared` counts calls of the API, in Redis for all processes where there is one.
    """
    own = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    if not REDIS_URL:
        return {"default": own, "shared": {**own, "LOCATION": "shared"}}
    return {
        "default": own,
        "shared": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": CHANNEL_PREFIX,
        },
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
