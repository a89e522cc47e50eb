"""Confab in a notebook (`import confab`) and as a command (`confab`, `confab --help`)."""

from __future__ import annotations

from chatbots.release import VERSION as __version__

__all__ = ["__version__", "main"]


def main() -> None:
    """Run the command `confab`."""
    from webapp.command_line import main as run_command

    run_command()
