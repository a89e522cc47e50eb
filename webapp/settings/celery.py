"""Celery over Redis by `REDIS_URL`; otherwise over files in the data folder."""

from __future__ import annotations

from webapp.settings.channels import CHANNEL_PREFIX, REDIS_URL
from webapp.settings.env import DATA_DIR

CELERY_TASK_IGNORE_RESULT = True  # progress and results are in the database
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = "default"

if REDIS_URL:
    CELERY_BROKER_URL = REDIS_URL
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "visibility_timeout": 3600,
        "global_keyprefix": f"{CHANNEL_PREFIX}-celery-",
    }
else:
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
