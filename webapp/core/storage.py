"""Static files with a digest in their name, ES module imports included."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ModuleManifestStorage(CompressedManifestStaticFilesStorage):
    """Also rewrites `import … from "./x.js"`, so that modules can be cached for ever."""

    support_js_module_import_aggregation = True
