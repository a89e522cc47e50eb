#!/usr/bin/env python
"""Entry point of every Confab command in a checkout; `confab` is the same where the package is installed."""

from webapp.command_line import main

if __name__ == "__main__":
    main()
