"""App configuration: the index is made with the database, and keeps nothing of people who were erased."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class ReadingConfig(AppConfig):
    name = "webapp.reading"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.reading.index import index_ensure, index_suspend, words_gone
        from webapp.studies.erasure import erasure_follow

        pre_migrate.connect(index_suspend, sender=self)
        post_migrate.connect(index_ensure, sender=self)
        erasure_follow(words_gone)
