"""App configuration of the last app, which loads plug-ins.

They find every registry and app complete.
"""

from __future__ import annotations

import logging
from pathlib import Path

from django.apps import AppConfig
from django.conf import settings

log = logging.getLogger(__name__)


class PluginsConfig(AppConfig):
    """Load plug-ins, then configured metrics of plug-ins' kinds; follow trained metrics.

    It is done here so that all processes and commands agree. If loading fails, every command and the web server exit
    with one clear line and code 1; a single broken metric is left out.
    """

    name = "webapp.core.plugins"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatbots.registry import PluginError, plugins_import

        try:
            plugins_import(list(settings.CONFAB_PLUGINS))
        except PluginError as error:
            raise SystemExit(f"CONFAB_PLUGINS names {error}. Correct or remove it.") from error
        if settings.CONFAB_METRICS.exists():
            self._metrics_configure()
        elif settings.CONFAB_METRICS != settings.DATA_DIR / "metrics.yaml":
            raise SystemExit(
                f"CONFAB_METRICS names {settings.CONFAB_METRICS}, which does not exist. Correct the path or unset "
                "CONFAB_METRICS."
            )
        self._trainings_watch()

    def _trainings_watch(self) -> None:
        from evaluation.metrics.registry import metrics
        from evaluation.metrics.trained import FOLDER, TrainedLook

        trainings = TrainedLook()
        metrics.refresh_by(lambda _name: trainings.look(Path(settings.DATA_DIR) / FOLDER, settings.CONFAB_DEVICE))

    def _metrics_configure(self) -> None:
        from chatbots.yaml_registry import EntriesError
        from evaluation.metrics.registry import configured_metrics

        try:
            configured_metrics.register(settings.CONFAB_METRICS, usual={"device": settings.CONFAB_DEVICE})
        except EntriesError as error:
            raise SystemExit(str(error)) from error
        for broken in configured_metrics.broken:
            log.warning("left out: %s", broken)
