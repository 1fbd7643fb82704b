"""The library of dlprof's own collector, whose source is in ``dlprof_nvtx/native``.

A released package holds it compiled, for Linux on x86-64 and aarch64. Elsewhere, and in a checkout,
the user's C compiler makes it at first use, without any header of CUDA, into the user's cache.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aggregator.errors import CollectorError
from aggregator.system.temporary_files import folder_prefix
from profiler_cli.capture.nsight import run_tool
from profiler_cli.capture.processes import markers_package

CACHE_VARIABLE: Final = "DLPROF_CACHE_DIR"
COMPILERS: Final = ("cc", "gcc", "clang")
_FLAGS: Final = "flags"  # File of the compiler's switches.
_LIBRARIES: Final = ("-ldl",)
_TIMEOUT_S: Final = 120
_LAST_LINES: Final = 5
# Where CUPTI is installed: PyTorch's and JAX's packages, conda, CUDA's toolkit.
_IN_PYTHON: Final = (
    "lib/python3*/*-packages/nvidia/cu[0-9]*/lib/libcupti.so.*",
    "lib/python3*/*-packages/nvidia/cuda_cupti/lib/libcupti.so.*",
    "lib/libcupti.so.*",
)
_IN_SYSTEM: Final = (
    "usr/local/cuda/extras/CUPTI/lib64/libcupti.so.*",
    "usr/local/cuda/targets/*-linux/lib/libcupti.so.*",
    "usr/local/cuda-*/extras/CUPTI/lib64/libcupti.so.*",
    "usr/local/cuda-*/targets/*-linux/lib/libcupti.so.*",
    "usr/lib/*-linux-gnu/libcupti.so.*",
    "opt/cuda/extras/CUPTI/lib64/libcupti.so.*",
)


def build_library() -> Path:
    """Return the library: the one of the package, else one compiled from the source.

    Raises:
        CollectorError: There is no compiler, or it failed, or the cache cannot be written.
    """
    prebuilt = find_prebuilt()
    if prebuilt is not None:
        return prebuilt
    source = _source_folder()
    built_for = f"{platform.machine()}{platform.libc_ver()}".encode()
    name = f"dlprof-collector-{_digest(source, built_for)}.so"
    folder = _cache_folder()
    if (folder / name).is_file():
        return folder / name
    if not _can_write(folder):
        # A home may be read-only. Programs that outlive this one have loaded the library by then.
        folder = Path(tempfile.mkdtemp(prefix=folder_prefix("dlprof-collector")))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as beside:
            part = Path(beside) / name
            _compile(source, part)
            part.replace(folder / name)
    except OSError as error:
        raise CollectorError(
            f"The collector cannot be stored in '{folder}': {error.strerror}.",
            hint=f"Set {CACHE_VARIABLE} to a folder that can be written.",
        ) from error
    return folder / name


def _can_write(folder: Path) -> bool:
    """Make the folder if it is missing, and try whether a file can be written there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def find_prebuilt() -> Path | None:
    """Find the library of the package for this machine; None: there is none of this source."""
    source = _source_folder()
    library = source / f"collector-{_digest(source)}.{platform.machine()}.so"
    # It is linked with glibc.
    return library if library.is_file() and platform.libc_ver()[0] == "glibc" else None


def _digest(source: Path, more: bytes = b"") -> str:
    """Name a source by its content, as hatch_build.py does."""
    files = (*sorted(source.glob("*.[ch]")), source / _FLAGS)
    content = b"".join(path.read_bytes() for path in files)
    return hashlib.sha256(content + more).hexdigest()[:16]


def find_compiler() -> str | None:
    """The C compiler: ``CC``, or the first one installed."""
    given = os.environ.get("CC", "").split()
    return next((name for name in (*given[:1], *COMPILERS) if shutil.which(name)), None)


def _compile(source: Path, target: Path) -> None:
    compiler = find_compiler()
    if compiler is None:
        raise CollectorError(
            "dlprof's own collector needs a C compiler, and none was found.",
            hint="Install gcc or clang (apt install gcc), or a released package of dlprof, which"
            " holds the collector for Linux on x86-64 and aarch64, or use Nsight Systems:"
            " --collector=nsys.",
        )
    words = [f"@{source / _FLAGS}", *sorted(map(str, source.glob("*.c")))]
    words += ["-o", str(target), *_LIBRARIES]
    try:
        done = run_tool(compiler, *words, limit_s=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise CollectorError(f"'{compiler}' did not compile the collector in time.") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise CollectorError(
            f"'{compiler}' could not compile dlprof's own collector.",
            hint="\n".join(lines[:_LAST_LINES]),
            return_code=done.returncode,
        )


def _source_folder() -> Path:
    package = markers_package()
    folder = package / "native" if package is not None else None
    if folder is None or not folder.is_dir():
        raise CollectorError(
            "The source of dlprof's own collector is not installed.", hint="Install dlprof again."
        )
    return folder


def _cache_folder() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dlprof"


def find_cupti(program: str, root: Path = Path("/")) -> Path | None:
    """The CUPTI for a program that has not loaded one itself; None: none was found.

    Args:
        program: The profiled program; the packages of its Python come first.
        root: Root folder of the system's installations.
    """
    found: Iterator[Path] = (
        path
        for prefix in _prefixes(program)
        for pattern in _IN_PYTHON
        for path in sorted(prefix.glob(pattern))
    )
    first = next(found, None)
    if first is not None:
        return first
    system = (path for pattern in _IN_SYSTEM for path in sorted(root.glob(pattern), reverse=True))
    return next(system, None)


def _prefixes(program: str) -> list[Path]:
    """Where the Python of a program is installed: a script names it in its first line."""
    path = shutil.which(program)
    if path is None:
        return []
    # A link in an environment belongs to it, not to what it points at.
    here = Path(path).absolute().parent.parent
    return list(dict.fromkeys((here, Path(path).resolve().parent.parent)))
