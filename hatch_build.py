"""Build hook: the viewer's page is built with npm while the sdist or wheel is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: What the build leaves last: the viewer's page, and the page of the HTML report.
BUILT = ("viewer/static/dlprof/.vite/manifest.json", "aggregator/html_report/page.html")
SKIP_VARIABLE = "DLPROF_SKIP_FRONTEND_BUILD"
NO_NPM = f"""\
npm was not found, and the viewer's page has to be built before it can be packaged.
  * Install Node.js 20.19 or newer (it brings npm) and build again, or
  * set {SKIP_VARIABLE}=1 to package without the page; the REST API and `dlprof` work without it.
A released wheel holds the built page: installing one needs no Node.js."""


class FrontendBuildHook(BuildHookInterface[Any]):
    """Runs ``npm ci && npm run build`` in the sdist; a wheel made from it copies the result."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Name what the API needs, whose own description the page is built from."""
        if os.environ.get(SKIP_VARIABLE) == "1" or self._is_unpacked_sdist():
            return []
        project = self.metadata.core
        return [*project.dependencies, *project.optional_dependencies["viewer"]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page unless this is an editable install or it was asked not to."""
        if version == "editable" or os.environ.get(SKIP_VARIABLE) == "1":
            return
        root = Path(self.root)
        if self._is_unpacked_sdist() and self._built(root):
            return
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(NO_NPM)
        if not self._is_unpacked_sdist():
            self.app.display_info("frontend: the description of the API")
            subprocess.run([sys.executable, "scripts/write_openapi.py"], cwd=root, check=True)
        frontend = root / "frontend"
        for arguments in (("ci", "--no-audit", "--no-fund"), ("run", "build")):
            self.app.display_info(f"frontend: npm {' '.join(arguments)}")
            subprocess.run([npm, *arguments], cwd=frontend, check=True)
        if not self._built(root):
            message = f"the frontend build left not all of {', '.join(BUILT)} under {root}"
            raise RuntimeError(message)

    def _is_unpacked_sdist(self) -> bool:
        """Only an sdist has PKG-INFO; a checkout may hold a stale build and is built anew."""
        return (Path(self.root) / "PKG-INFO").is_file()

    @staticmethod
    def _built(root: Path) -> bool:
        return all((root / name).is_file() for name in BUILT)
