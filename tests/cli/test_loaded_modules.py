"""``dlprof`` and the web server load no extra, and nothing slow that few need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import Trace

REPOSITORY = Path(__file__).resolve().parents[2]

_CODE = """
import sys
from profiler_cli.dlprof import main
code = main(sys.argv[1:])
assert not code, code
slow = {"aggregator.metrics.memory.analysis"}
print(sorted({"pandas", "plotly", "django", *slow} & sys.modules.keys()))
"""


# As in an environment without the extras "viewer" and "notebook".
_BASE_ONLY = """
import sys, tomllib
from packaging.requirements import Requirement
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
modules = {"djangorestframework": "rest_framework", "drf-spectacular": "drf_spectacular",
           "prometheus-client": "prometheus_client", "Django": "django", "XlsxWriter": "xlsxwriter"}
names = [Requirement(line).name for line in extras["viewer"] + extras["notebook"]]
sys.modules.update(dict.fromkeys((modules.get(name, name) for name in names), None))
"""


def _run_base(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{_BASE_ONLY}{code}", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _loaded(folder: Path, *options: str) -> str:
    command = [sys.executable, "-c", _CODE, *options, f"--output_path={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    trace = Trace()
    list(trace.steps(4))
    path = tmp_path / "export.sqlite"
    trace.write(path)
    return path


def test_an_import_and_a_further_aggregation_load_no_slow_modules(
    export: Path, tmp_path: Path
) -> None:
    assert _loaded(tmp_path, f"--database={export}", "--reports=summary") == "[]"
    database = tmp_path / "dlprof_dldb.sqlite"
    options = (f"--database={database}", "--iter_start=1", "--base_name=again")
    assert _loaded(tmp_path, *options) == "[]"


def test_every_command_but_the_viewer_works_without_the_extras(
    export: Path, tmp_path: Path
) -> None:
    code = "from profiler_cli.dlprof import main; sys.exit(main(sys.argv[1:]))"
    reports = "--reports=all,advice,html"
    options = (f"--output_path={tmp_path}", reports, "--formats=csv,json", "--dump_model_data")
    done = _run_base(code, f"--database={export}", *options)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "dlprof_report.html").is_file()
    done = _run_base(code, "advise", f"--database={tmp_path}/dlprof_dldb.sqlite", "--fail_on=never")
    assert done.returncode == 0, done.stderr
    done = _run_base(code, "pyprof", "parse", str(export))
    assert done.returncode == 0, done.stderr


def test_what_needs_an_extra_names_it(tmp_path: Path) -> None:
    code = "from profiler_cli.dlprofviewer import main; sys.exit(main(sys.argv[1:]))"
    done = _run_base(code, str(tmp_path))
    assert done.returncode == 3
    first, hint = done.stderr.splitlines()
    assert first.startswith("dlprofviewer: error: The viewer is not installed: celery, django, ")
    assert hint == "Install it with: pip install 'open-dlprof[viewer]'"
    assert _run_base(code, "--version").returncode == 0
    done = _run_base("import dlprof_client")
    assert done.stderr.splitlines()[-1].endswith("pip install 'open-dlprof[notebook]'")


_SERVER = """
import sys
import viewer.wsgi, viewer.urls
late = {"aggregator.advice", "aggregator.compare.sides", "aggregator.replay.build", "celery",
        "jinja2", "requests", "viewer.api.profiles", "viewer.api.replay"}
print(sorted(late & sys.modules.keys()))
import requests  # What was absent for the server's libraries is there for others.
"""


def test_the_web_server_starts_without_what_few_requests_need(tmp_path: Path) -> None:
    pytest.importorskip("requests")
    done = subprocess.run(
        [sys.executable, "-c", _SERVER],
        cwd=REPOSITORY,
        env=os.environ | {"DLPROF_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
