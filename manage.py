#!/usr/bin/env python
"""Entry point of every Confab command."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings.embedded")
    # Threads of torch that wait by spinning slow down every other process on a small machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
