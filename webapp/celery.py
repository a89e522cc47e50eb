"""The Celery application; tasks live in `webapp/jobs/tasks.py`."""

from __future__ import annotations

import os

from celery import Celery

from webapp.core import file_broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
# Threads of torch that wait by spinning slow down every other process on a small machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

file_broker.register()
app = Celery("confab")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
