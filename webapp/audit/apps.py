"""App configuration: stores recorded actions, and keeps the triggers of the log."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class AuditConfig(AppConfig):
    name = "webapp.audit"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.audit.chain import entry_store
        from webapp.audit.triggers import triggers_ensure, triggers_remove
        from webapp.core.audit_trail import store_add

        store_add(entry_store)
        pre_migrate.connect(triggers_remove, sender=self)
        post_migrate.connect(triggers_ensure, sender=self)
