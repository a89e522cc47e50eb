"""One lock around the first import of the heavy libraries.

Bots are loaded in threads of their own. When two of them import transformers at the same moment, one may
find it half made ("cannot import name …"); whoever imports it, or what imports it, takes the lock. transformers itself
imports most of its parts at their first use, long after its own import: `transformers_module` does so at once.
"""

from __future__ import annotations

import threading
from typing import Any

import_lock = threading.RLock()


def transformers_module() -> Any:
    """Import transformers and what each of its models imports at its first use, such as accelerate."""
    with import_lock:
        import transformers
        import transformers.modeling_utils
    return transformers
