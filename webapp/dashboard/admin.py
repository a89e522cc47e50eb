"""Titles of Django's admin site, and its link back to the dashboard."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.utils.translation import gettext_lazy as _

admin.site.site_header = _("Confab records")
admin.site.site_title = _("Confab records")
admin.site.index_title = _("Records")
admin.site.site_url = f"{settings.CONFAB_PATH_PREFIX}/dashboard/"
