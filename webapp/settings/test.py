"""pytest: the embedded defaults in a folder of their own, or PostgreSQL and Redis where named.

Every pytest process has a data folder and channels of its own, whatever the environment says, so that
tests touch nobody's data and parallel workers do not hear each other.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid

_shared = os.environ.get("CONFAB_TEST_DIR", "")
if not _shared:
    _shared = os.environ["CONFAB_TEST_DIR"] = tempfile.mkdtemp(prefix="confab-test-")
    atexit.register(shutil.rmtree, _shared, ignore_errors=True)
os.environ["CONFAB_DATA_DIR"] = os.path.join(_shared, str(os.getpid()))
os.environ["CONFAB_CHANNEL_PREFIX"] = f"confab-test-{uuid.uuid4().hex[:12]}"

from webapp.settings.embedded import *  # noqa: E402, F403

ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CELERY_TASK_ALWAYS_EAGER = False
# Only the test writes to its database.
CONFAB_SIGN_EVERY_S = 0.0
# Static files are looked for on request: a client of a test would list all of them at its first request.
WHITENOISE_AUTOREFRESH = True
