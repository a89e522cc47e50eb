"""App configuration."""

import logging

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate, post_save

logger = logging.getLogger(__name__)


class CoreConfig(AppConfig):
    name = "webapp.core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Create the default project and groups after migrations.

        Also remember browsers that sign in, and warn about misspelt settings, which would be ignored silently.
        """
        from django.contrib.auth.models import User
        from django.contrib.auth.signals import user_logged_in
        from django.core.signals import request_finished, request_started

        from webapp.core.audit_trail import leave_request
        from webapp.core.authentication import note_sign_in
        from webapp.core.project_scope import leave_project
        from webapp.core.rights import groups_ensure, project_ensure, record_account

        for name, meant in settings.CONFAB_MISSPELT.items():
            logger.warning("%s is set but not a Confab setting; did you mean %s?", name, meant)
        post_migrate.connect(project_ensure, sender=self)
        # Django's own receiver, which creates the permissions, was connected earlier.
        post_migrate.connect(groups_ensure, sender=self)
        post_save.connect(record_account, sender=User)
        user_logged_in.connect(note_sign_in)
        request_started.connect(leave_project)
        request_finished.connect(leave_project)
        request_started.connect(leave_request)
        request_finished.connect(leave_request)
