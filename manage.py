#!/usr/bin/env python
"""Entry point of every Confab command."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    # Threads of torch that wait by spinning slow down every other process on a small machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
        sys.stdout.flush()
    except ImproperlyConfigured as error:
        sys.exit(f"Confab cannot start: {error}")
    except BrokenPipeError:
        # Nobody reads on, as after `| head`. What Python would still write at its end must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit("Nobody reads this output any more; stopped.")


if __name__ == "__main__":
    main()
