"""Child process that ends with its parent.

Started as `python -m webapp.core.child PARENT MODULE ARGUMENT…`. A killed server cannot end its children, and a worker
without a server would go on taking jobs with outdated code. So the child itself checks whether its parent is alive,
which works on every system.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

LOOK_INTERVAL_S = 1.0
WORKER_GRACE_S = 15
"""Time after SIGTERM to leave a slice of work."""


def end_with_parent(parent: int) -> None:
    """Terminate this process once its parent is gone.

    If it does not end, it is killed with its own children.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_INTERVAL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(WORKER_GRACE_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    _program, _parent, _module, *_arguments = sys.argv
    threading.Thread(target=end_with_parent, args=(int(_parent),), name="parent", daemon=True).start()
    sys.argv[1:] = _arguments
    runpy.run_module(_module, run_name="__main__", alter_sys=True)
