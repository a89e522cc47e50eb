"""Titles of Django's admin site, and its link back to the dashboard."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin

admin.site.site_header = "Confab records"
admin.site.site_title = "Confab records"
admin.site.index_title = "Records"
admin.site.site_url = f"{settings.CONFAB_PATH_PREFIX}/dashboard/"
