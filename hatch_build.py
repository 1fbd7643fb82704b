"""Build hook: the viewer's page and the collector's libraries are made with the sdist or wheel."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: What the build leaves last: the viewer's page, and the page of the HTML report.
BUILT = ("viewer/static/dlprof/.vite/manifest.json", "aggregator/html_report/page.html")
#: The packages whose code is in the page; a wheel has them in its metadata (PEP 770).
SBOM = "viewer/static/dlprof/.vite/sbom.cdx.json"
SKIP_VARIABLE = "DLPROF_SKIP_FRONTEND_BUILD"
NO_NPM = f"""\
npm was not found, and the viewer's page has to be built before it can be packaged.
  * Install Node.js 20.19 or newer (it brings npm) and build again, or
  * set {SKIP_VARIABLE}=1 to package without the page; the REST API and `dlprof` work without it.
A released wheel holds the built page: installing one needs no Node.js."""
#: A compiler of C for both machines, of which it also brings the glibc to link with.
ZIG = "ziglang>=0.15,<1"
MACHINES = ("x86_64", "aarch64")
#: As old as that of manylinux2014: no container that runs CUDA 11.8 has an older one.
GLIBC = "2.17"
NO_ZIG = f"""\
the collector's library is not in this package, because {ZIG} is not installed here: dlprof \
compiles it at its first use, with the user's C compiler. A released package holds it."""


def library_name(native: Path, machine: str) -> str:
    """Name the library of the collector after its source and its machine."""
    digest = hashlib.sha256()
    for path in (*sorted(native.glob("*.[ch]")), native / "flags"):
        digest.update(path.read_bytes())
    return f"collector-{digest.hexdigest()[:16]}.{machine}.so"


class BuildHook(BuildHookInterface[Any]):
    """Makes in the sdist what is not in git; a wheel made from the sdist copies the result."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Name what the API needs, whose own description the page is built from."""
        if os.environ.get(SKIP_VARIABLE) == "1" or self._is_unpacked_sdist():
            return self._compiler()
        project = self.metadata.core
        viewer = project.optional_dependencies["viewer"]
        return [*project.dependencies, *viewer, *self._compiler()]

    def _compiler(self) -> list[str]:
        """Name the compiler for an sdist alone: it is large, and a checkout is no release."""
        return [ZIG] if self.target_name == "sdist" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build everything, unless this is an editable install."""
        if version == "editable":
            return
        root = Path(self.root)
        if not self._is_unpacked_sdist():
            self._build_libraries(root / "dlprof_nvtx" / "native")
        if os.environ.get(SKIP_VARIABLE) != "1":
            self._build_page(root)
        if self.target_name == "wheel" and (root / SBOM).is_file():
            build_data["sbom_files"].append(SBOM)

    def _build_libraries(self, native: Path) -> None:
        for stale in native.glob("collector-*.so"):
            stale.unlink()
        if importlib.util.find_spec("ziglang") is None:
            self.app.display_warning(NO_ZIG)
            return
        files = sorted(map(str, native.glob("*.c")))
        for machine in MACHINES:
            target = native / library_name(native, machine)
            words = ["-target", f"{machine}-linux-gnu.{GLIBC}", "-s", f"@{native / 'flags'}"]
            compiler = [sys.executable, "-m", "ziglang", "cc", *words]
            subprocess.run([*compiler, *files, "-o", str(target), "-ldl"], check=True)

    def _build_page(self, root: Path) -> None:
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
        """Recognize an sdist by its PKG-INFO: a checkout may hold a stale build."""
        return (Path(self.root) / "PKG-INFO").is_file()

    @staticmethod
    def _built(root: Path) -> bool:
        return all((root / name).is_file() for name in BUILT)
