"""The collector's library, and a stand-in for CUDA, CUPTI and NVTX that uses it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from profiler_cli.capture.native import build_library, find_compiler
from tests.collector.programs import HERE, REPOSITORY, Program


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled library and the stand-in for CUDA."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler is installed")
    folder = tmp_path_factory.mktemp("collector")
    (folder / "separate").mkdir()
    # CUDA with CUPTI in it, as a program has that loaded CUPTI; then each in a file of its own.
    for source, target, name, *more in (
        ("fake_cuda.c", "libcupti.so.99", "libcuda.so.1"),
        ("fake_cuda.c", "separate/libcuda.so.1", "libcuda.so.1", "-DSEPARATE_CUPTI"),
        ("fake_cupti.c", "separate/libcupti.so.99", "libcupti.so.99"),
    ):
        words = [compiler, "-O1", "-fPIC", "-shared", f"-I{REPOSITORY / 'dlprof_nvtx/native'}"]
        words += [*more, str(HERE / source), "-o", str(folder / target), f"-Wl,-soname,{name}"]
        subprocess.run([*words, "-ldl"], check=True)
    return folder


@pytest.fixture
def program(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program with the collector in it."""
    monkeypatch.setenv("DLPROF_CACHE_DIR", str(cache))
    return Program(tmp_path, cache, build_library())
