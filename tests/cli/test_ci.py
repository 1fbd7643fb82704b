"""The GitHub action and the GitLab job of docs/compare.md, run as their runners run them."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from profiler_cli.dlprof import main
from tests.conftest import DEMO_PROFILE, REPOSITORY, ProfileFactory

_INPUT = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")


@pytest.fixture(scope="module")
def summaries(imported: ProfileFactory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture, the same again, and one that waits ten times as long for the host."""
    folder = tmp_path_factory.mktemp("summaries")
    fast = folder / "fast.summary.json.gz"
    assert main(["export", "--format=summary", str(imported(DEMO_PROFILE)), f"-o={fast}"]) == 0
    content = json.loads(gzip.decompress(fast.read_bytes()))
    (folder / "same.summary.json.gz").write_bytes(fast.read_bytes())
    waits = [owner[0] == "waiting for the host" for owner in content["owners"]]
    for place, times in enumerate(content["owned_ns"]):
        longer = [10 * time if wait else time for time, wait in zip(times, waits, strict=True)]
        content["owned_ns"][place] = longer
        content["lengths_ns"][place] = sum(longer)
    packed = gzip.compress(json.dumps(content).encode())
    (folder / "slow.summary.json.gz").write_bytes(packed)
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The programs on PATH: dlprof, and a ``gh`` that writes down what it was asked to do.

    It knows the comment whose number is in the file ``commented``.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {
        "dlprof": f"exec {sys.executable} -c 'import sys; from profiler_cli.dlprof import main;"
        ' sys.exit(main())\' "$@"',
        "gh": 'if [ "$2" = --paginate ]\n'
        'then [ "$MARK" = "$(cat mark)" ] && cat commented; exit 0\nfi\n'
        'printf "%s\\n" "$@" > gh.txt; cp dlprof-compare/comment.md sent.md',
    }.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@dataclass
class Runner:
    """Runs the shell steps of the composite action as GitHub does."""

    folder: Path
    programs: Path
    inputs: dict[str, str]
    values: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    failed: str = ""

    def run(self) -> None:
        action = yaml.safe_load((REPOSITORY / "action.yml").read_text("utf-8"))
        for name, one in action["inputs"].items():
            assert one["description"]
            self.values[f"inputs.{name}"] = self.inputs.get(name, str(one.get("default", "")))
        self.values |= {
            "github.action_path": str(REPOSITORY),
            "runner.temp": str(self.folder),
            "github.event_name": "pull_request",
            "github.token": "token",
            "github.event.pull_request.number": "17",
        }
        for step in action["runs"]["steps"]:
            if "run" in step and not self.failed and self.is_wanted(step.get("if", "")):
                self.step(step)
        for name, one in action["outputs"].items():
            self.values[f"outputs.{name}"] = self.filled(one["value"])

    def is_wanted(self, condition: str) -> bool:
        """Conditions compare values with texts, joined by &&."""
        for part in filter(None, condition.split("&&")):
            name, operator, text = part.split()
            if (self.values.get(name, "") == text.strip("'")) != (operator == "=="):
                return False
        return True

    def filled(self, text: str) -> str:
        return _INPUT.sub(lambda found: self.values.get(found[1], ""), text)

    def step(self, step: dict[str, Any]) -> None:
        script = self.folder / "step.sh"
        script.write_text(self.filled(step["run"]), encoding="utf-8")
        names = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")
        files = {name: self.folder / name for name in names}
        variables = {name: self.filled(value) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.folder,
            env=os.environ
            | {"PATH": f"{self.programs}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
            | {"GITHUB_REPOSITORY": "owner/name", "GITHUB_WORKFLOW": "ci", "GITHUB_JOB": "speed"}
            | {name: str(path) for name, path in files.items()}
            | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        self.ran.append(step["name"])
        if done.returncode:
            self.failed = f"{step['name']}: {done.returncode}: {done.stdout}{done.stderr}"
        for line in (
            files["GITHUB_OUTPUT"].read_text("utf-8").splitlines() if step.get("id") else ()
        ):
            name, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{name}"] = value


def run_action(folder: Path, programs: Path, **inputs: str) -> Runner:
    (folder / "GITHUB_OUTPUT").touch()
    runner = Runner(folder, programs, {"install": "false", **inputs})
    runner.run()
    return runner


def test_the_action_comments_and_keeps_its_reports(
    summaries: Path, programs: Path, tmp_path: Path
) -> None:
    sides = {
        "base": f"{summaries}/fast.summary.json.gz",
        "new": f"{summaries}/same.summary.json.gz",
    }
    done = run_action(tmp_path, programs, **sides, comment="true")
    assert done.failed == ""
    assert done.ran == ["Compare", "Comment on the pull request"]
    assert (done.values["outputs.verdict"], done.values["outputs.exit-code"]) == (
        "cannot tell",
        "14",
    )
    reports = tmp_path / "dlprof-compare"
    assert {path.suffix for path in reports.iterdir()} == {".json", ".md", ".html", ".xml"}
    comment = (reports / "compare.md").read_text("utf-8")
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text("utf-8") == comment
    sent = (tmp_path / "sent.md").read_text("utf-8")
    assert sent == f"{MARK}\n{comment}"
    assert asked(tmp_path) == [*API, "POST", "repos/owner/name/issues/17/comments", *BODY]


MARK = "<!-- dlprof compare: ci/speed -->"
API = ("api", "--silent", "--method")
BODY = ("-F", "body=@dlprof-compare/comment.md")


def asked(folder: Path) -> list[str]:
    """What GitHub's program was asked to change."""
    return (folder / "gh.txt").read_text("utf-8").splitlines()


def test_the_action_edits_its_comment_and_need_not_fail(
    summaries: Path, programs: Path, tmp_path: Path
) -> None:
    fast, slow = (f"{summaries}/{name}.summary.json.gz" for name in ("fast", "slow"))
    (tmp_path / "mark").write_text(MARK)
    (tmp_path / "commented").write_text("40\n41\n")
    may = {"fail-on-regression": "false"}
    done = run_action(tmp_path, programs, base=fast, new=slow, comment="true", **may)
    assert done.failed == ""
    assert (done.values["outputs.verdict"], done.values["outputs.exit-code"]) == ("slower", "10")
    assert asked(tmp_path) == [*API, "PATCH", "repos/owner/name/issues/comments/41", *BODY]


def test_the_action_installs_its_own_checkout_in_an_environment_of_its_own(
    summaries: Path, programs: Path, tmp_path: Path
) -> None:
    """The Python of the test plays one whose pip only notes what it is asked for."""
    fast, same = (f"{summaries}/{name}.summary.json.gz" for name in ("fast", "same"))
    python = programs / "python-of-the-system"
    python.write_text(
        '#!/bin/bash\n[ "$1 $2" = "-m venv" ] || exit 1\nmkdir -p "$3/bin"\n'
        'printf \'#!/bin/bash\\necho "$DLPROF_SKIP_FRONTEND_BUILD" "$@" > pip.txt\\n\' '
        '> "$3/bin/python"\nchmod +x "$3/bin/python"\n'
    )
    python.chmod(0o755)
    done = run_action(tmp_path, programs, base=fast, new=same, install="true", python=str(python))
    assert done.failed == ""
    assert (tmp_path / "pip.txt").read_text() == f"1 -m pip install --quiet {REPOSITORY}\n"
    assert (tmp_path / "GITHUB_PATH").read_text() == f"{tmp_path}/dlprof-venv/bin\n"


def test_the_action_fails_on_a_regression(summaries: Path, programs: Path, tmp_path: Path) -> None:
    fast, slow = (f"{summaries}/{name}.summary.json.gz" for name in ("fast", "slow"))
    done = run_action(tmp_path, programs, base=fast, new=slow, **{"fail-on-regression": "true"})
    assert done.failed.startswith("Fail on a regression: 10")
    assert not (tmp_path / "gh.txt").exists()


def test_the_action_ends_with_the_error_of_a_missing_capture(
    programs: Path, tmp_path: Path
) -> None:
    done = run_action(tmp_path, programs, base="a.sqlite", new="b.sqlite", comment="true")
    assert done.failed.startswith("Compare: 5: ")
    assert "No database at" in done.failed
    assert done.ran == ["Compare"]


@pytest.mark.parametrize(("new", "code"), [("slow", 10), ("missing", 5)])
def test_gitlab_job_keeps_its_artifacts_and_exit_code(
    summaries: Path, programs: Path, tmp_path: Path, new: str, code: int
) -> None:
    text = (REPOSITORY / "docs/compare.md").read_text("utf-8").split("### GitLab")[1]
    job = yaml.safe_load(text.split("```yaml")[1].split("```")[0])["compare"]
    assert job["script"].pop(0).startswith("DLPROF_SKIP_FRONTEND_BUILD=1 pip install 'git+https")
    captures = {
        "BASE_CAPTURES": f"{summaries}/fast.summary.json.gz",
        "NEW_CAPTURES": f"{summaries}/{new}.summary.json.gz",
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
    }
    # The runner joins the lines into one script that ends at the first error.
    script = "\n".join(["set -eo pipefail", *job["script"]])
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=os.environ | captures, check=False
    )
    assert done.returncode == code
    kept = [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]
    assert all((tmp_path / name).exists() for name in kept) == (new != "missing")
    if new != "missing":
        tests = ET.parse(tmp_path / kept[-1]).getroot().iter("testcase")
        assert any(list(one) for one in tests)
