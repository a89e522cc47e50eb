"""Build step that `pyproject.toml` cannot express: the wheel stores the commit it was made from."""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
# By its path: the package around it imports what a build has not installed.
release = runpy.run_path(str(HERE / "chatbots" / "installation.py"))


class BuildWithCommit(build_py):
    """Copy the modules, and the commit of the checkout beside them."""

    def run(self) -> None:
        super().run()
        commit = release["commit_of_checkout"](HERE)
        if commit is not None and not self.editable_mode:
            file = Path(self.build_lib) / "chatbots" / release["COMMIT_FILE"]
            file.write_text(commit, encoding="utf-8")


setup(cmdclass={"build_py": BuildWithCommit})
