"""App configuration: creates the index, and erases participants' data from it."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.translation import gettext_lazy as _


class ReadingConfig(AppConfig):
    name = "webapp.search"
    label = "reading"  # the app's label in the database
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.search.index import index_ensure, index_suspend, words_gone
        from webapp.search.models import Note
        from webapp.studies.privacy import erasure_follow, erasure_kind, rows_of
        from webapp.studies.privacy.retention import texts_in, texts_kind

        pre_migrate.connect(index_suspend, sender=self)
        post_migrate.connect(index_ensure, sender=self)
        erasure_follow(words_gone)
        erasure_kind("reader_notes", _("stars, tags and notes of readers"), rows_of(Note, "conversation__participant"))
        texts_kind(
            "reader_notes",
            texts_in(lambda study: Note.objects.filter(conversation__study=study, kind=Note.Kind.NOTE), "text"),
        )
