"""Fixtures of every test folder: a clean environment, the profiles and the golden run."""

from __future__ import annotations

import fcntl
import gc
import lzma
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import django
import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent
DEMO_PROFILE = "pytorch_resnet50_amp"
# Variables for the tests; any other DLPROF variable of the caller would change the product.
KEPT = {
    *("DLPROF_SHARED", "DLPROF_TEST_CACHE", "DLPROF_CHROMIUM"),
    *("DLPROF_MUTANTS", "DLPROF_MUTANT", "DLPROF_HARM_PYTHON"),
}

# How long an example takes says how busy the machine is.
UNTIMED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=10, derandomize=True, **UNTIMED)
settings.register_profile("thorough", max_examples=50, **UNTIMED)

ProfileFactory = Callable[[str], Path]

#: Files and folders whose tests take longest, in the order in which test processes begin them.
LONGEST_FIRST = (
    *("fuzz/test_mutants.py", "browser/test_views.py"),
    *("contract/test_fuzzed_requests.py", "jobs/test_robustness.py", "contract/test_tables.py"),
    *("property/test_traces.py", "jobs/test_ranks.py", "packaging/test_wheel.py"),
    *("golden/test_conservation.py", "property/test_page_writer.py"),
    *("jobs/test_operations.py", "jobs/test_redis.py", "jobs/test_command.py"),
    *("jobs/test_embedded.py", "browser/test_report.py", "golden/test_ranks.py"),
    *("cli/test_command.py", "cli/test_capture.py", "jobs/", "browser/", "packaging/", "cli/"),
    *("contract/test_large_tables.py", "contract/", "fuzz/", "golden/"),
)


def pytest_configure(config: pytest.Config) -> None:
    """Load Django, with a state folder of this run's own instead of the user's.

    Without the thorough tests, properties are tried on fewer examples, the same in each run. The
    settings are not named in pyproject.toml: they would be loaded before this function.
    """
    # Thousands of tests are made, and none of them is garbage.
    gc.disable()
    settings.load_profile("quick" if "not thorough" in config.option.markexpr else "thorough")
    # A shell starts what runs in the background with SIGINT ignored, nohup ignores SIGHUP, and
    # whatever the tests start would inherit that.
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
    state = tempfile.TemporaryDirectory(prefix="dlprof-test-state-", ignore_cleanup_errors=True)
    config.add_cleanup(state.cleanup)
    for name in [name for name in os.environ if name.startswith("DLPROF_") and name not in KEPT]:
        del os.environ[name]
    # The tests start some hundred Python processes: without cached bytecode, which some containers
    # switch off, each compiles its modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["DLPROF_STATE_DIR"] = state.name
    # A request takes wall time: tests of its limit set their own, others are not about the machine.
    os.environ["DLPROF_QUERY_TIMEOUT_S"] = "120"
    os.environ["DJANGO_SETTINGS_MODULE"] = "viewer.settings"
    # Playwright keeps an event loop in the thread of the tests; the viewer itself has none.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    django.setup()


def pytest_collection_finish() -> None:
    """Spare the tests and modules from every later search for garbage: it took a tenth of all."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of thorough.txt before ``-m`` selects, and begin with the longest files.

    So none of those is left to one process at the end.
    """
    lines = (TESTS / "thorough.txt").read_text("utf-8").splitlines()
    unused = dict.fromkeys(line for line in lines if line and not line.startswith("#"))
    patterns: dict[str, dict[str, re.Pattern[str]]] = {}
    for pattern in unused:
        file, _, test = pattern.partition("::")
        patterns.setdefault(file, {})[pattern] = _expression(test)
    for item in items:
        here = patterns.get(f"tests/{item.path.relative_to(TESTS)}", {})
        test = item.nodeid.partition("::")[2]
        if fitting := [pattern for pattern, fits in here.items() if fits.fullmatch(test)]:
            item.add_marker(pytest.mark.thorough)
            for pattern in fitting:
                unused.pop(pattern, None)
    if unused and config.args == config.getini("testpaths"):
        raise pytest.UsageError(f"tests/thorough.txt: no test fits {', '.join(unused)}")
    items.sort(key=_place_in_line)


def _expression(pattern: str) -> re.Pattern[str]:
    """The part of a pattern of thorough.txt after the file; only * stands for other text."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))


def _place_in_line(item: pytest.Item) -> int:
    path = f"{item.path.relative_to(TESTS)}"
    places = (place for place, start in enumerate(LONGEST_FIRST) if path.startswith(start))
    return next(places, len(LONGEST_FIRST))


def _shared_root() -> Path:
    return Path(os.environ.get("DLPROF_SHARED") or REPOSITORY.parent / "shared")


def _cache_root() -> Path:
    """One folder per user, outside the repository, so that checkouts share unpacked profiles."""
    if configured := os.environ.get("DLPROF_TEST_CACHE"):
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "open-dlprof" / "test-profiles"


def _find_shared(file_name: str) -> Path | None:
    """A profile in the shared folders, packed or as it is; the one used most is also committed."""
    root = _shared_root()
    folders = [root / "profiles", *sorted((root / "public").glob("*")), root / "workloads/captures"]
    candidates = [folder / name for folder in folders for name in (f"{file_name}.xz", file_name)]
    if file_name == f"{DEMO_PROFILE}.sqlite":
        candidates.append(REPOSITORY / "tests/data/captures" / f"{file_name}.xz")
    return next((path for path in candidates if path.is_file()), None)


def _unpack(packed: Path, target: Path) -> Path:
    """Unpack once per machine, however many test processes get here at the same time.

    The lock keeps the others from doing the same work; the rename keeps a process that dies half
    way from leaving half a file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_file() and target.stat().st_mtime >= packed.stat().st_mtime:
            return target
        temporary = target.with_name(f"{target.name}.part")
        with lzma.open(packed) as source, temporary.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        # Never writable: a test that alters a shared profile would spoil the next one.
        temporary.chmod(0o444)
        temporary.replace(target)
    return target


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of shared profiles and of the golden run; the test is skipped without it."""
    root = _shared_root()
    if not root.is_dir():
        pytest.skip(f"no shared test data at {root}: set DLPROF_SHARED to its folder")
    return root


@pytest.fixture(scope="session")
def public(shared_dir: Path) -> ProfileFactory:
    """A function from a path below the public captures to its file; without it: a skip."""

    def found(name: str) -> Path:
        path = shared_dir / "public" / name
        if not path.exists():
            pytest.skip("the public captures are not here")
        return path

    return found


@pytest.fixture(scope="session")
def golden_dir(shared_dir: Path) -> Path:
    """A real run of NVIDIA's DLProf 1.8.0: its profile, its database and its reports."""
    root = shared_dir / "golden" / "dlprof-1.8.0-pytorch"
    if not root.is_dir():
        pytest.skip(f"no golden run at {root}")
    return root


@pytest.fixture(scope="session")
def profile() -> ProfileFactory:
    """A function from a profile's name to its unpacked file, read-only and shared by all tests.

    ``profile("simple_no_nvtx")`` is the Nsight Systems export of that name; a name with a suffix
    (``profile("kineto_resnet50_fp16.pt.trace.json")``) is that file. It is searched for among the
    shared profiles, the public ones and the captures of workloads.
    """

    def unpacked(name: str) -> Path:
        file_name = name if "." in name else f"{name}.sqlite"
        found = _find_shared(file_name)
        if found is None:
            pytest.skip(f"no profile {file_name} under {_shared_root()}")
        return _unpack(found, _cache_root() / file_name) if found.suffix == ".xz" else found

    return unpacked


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The file or folder of that name, written once for all test processes, and never changed.

    Args:
        factory: Of the session's temporary folders.
        name: Of the file, maybe with a folder, unlike that of any other.
        make: Writes it.
    """
    base = factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    path = root / "made_once" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            part = path.with_name(f"part.{path.name}")
            make(part)
            part.rename(path)
    return path


@pytest.fixture(scope="session")
def imported(profile: ProfileFactory, tmp_path_factory: pytest.TempPathFactory) -> ProfileFactory:
    """A function from a profile's name to its database, made once for all test processes.

    Beside it lie ``<name>.out`` and ``<name>.err``, which ``dlprof`` printed about it. Tests must
    not write to these databases; they copy them.
    """

    def database(name: str) -> Path:
        name = name.removesuffix(".sqlite")

        def make(path: Path) -> None:
            _analyze(profile(name), path.with_name(name)).rename(path)

        return made_once(tmp_path_factory, f"{name}.dldb.sqlite", make)

    return database


def _analyze(source: Path, folder: Path) -> Path:
    """The database that ``dlprof`` makes of a profile."""
    from profiler_cli.dlprof import main

    words = [f"--database={source}", f"--output_path={folder}", "--force=true", "-v=minimal"]
    with (
        folder.with_name(f"{folder.name}.out").open("w") as out,
        folder.with_name(f"{folder.name}.err").open("w") as err,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        assert main(words) == 0
    return folder / "dlprof_dldb.sqlite"


@pytest.fixture(scope="session")
def demo_profile(profile: ProfileFactory) -> Path:
    """The profile that the repository itself carries: it is there in every checkout."""
    return profile(DEMO_PROFILE)
