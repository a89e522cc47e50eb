"""Build steps that `pyproject.toml` cannot express: the wheel has the commit it was made from, and the guide."""

import runpy
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
# By its path: the package around it imports what a build has not installed.
release = runpy.run_path(str(HERE / "chatbots" / "installation.py"))


class BuildWithCommit(build_py):
    """Copy the modules, the guide's pages and the commit of the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for page in (HERE / "docs").rglob("*.md"):
                copy = Path(self.build_lib) / "webapp" / "dashboard" / "docs" / page.relative_to(HERE / "docs")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(page, copy)
        commit = release["commit_of_checkout"](HERE)
        if commit is not None and not self.editable_mode:
            file = Path(self.build_lib) / "chatbots" / release["COMMIT_FILE"]
            file.write_text(commit, encoding="utf-8")


setup(cmdclass={"build_py": BuildWithCommit})
