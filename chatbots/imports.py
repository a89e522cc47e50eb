"""One lock around the first import of the heavy libraries.

Bots are loaded in threads of their own. When two of them import transformers at the same moment, one may
find it half made ("cannot import name …"); whoever imports it, or what imports it, takes the lock.
"""

from __future__ import annotations

import threading

import_lock = threading.RLock()
