"""Nothing committed says where packages are downloaded from: that is each machine's setting."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SETTINGS = re.compile(
    r"""(?ix)
    (?: ^ | [\s"'\[] ) -{0,2}
    (?: extra[-_]index[-_]url | index[-_]url | find[-_]links | trusted[-_]host
      | pip_(?:extra_)?index_url | npm_config_registry | (?: @[\w-]+ : )? registry | _authtoken )
    \s* [=:\s] \s* \S+ : //
    """
)


def tracked_files() -> list[Path]:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    paths = [REPOSITORY / name for name in done.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:8192]]


def test_no_committed_file_sets_a_package_index() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in tracked_files()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if SETTINGS.search(line)
    ]
    assert found == []


ANYWHERE = "https://example.org/"
SETTING = "-".join(("index", "url"))


@pytest.mark.parametrize(
    "line",
    [
        f"--{SETTING} {ANYWHERE}",
        f"extra-{SETTING} = {ANYWHERE}",
        f"registry={ANYWHERE}",
        f'"registry": "{ANYWHERE}"',
        f"PIP_INDEX_URL={ANYWHERE}",
    ],
)
def test_the_check_knows_such_a_setting_when_it_sees_one(line: str) -> None:
    assert SETTINGS.search(line.replace('": "', ": "))


def test_the_npm_lock_file_names_no_download_address() -> None:
    lock = REPOSITORY / "frontend/package-lock.json"
    packages = json.loads(lock.read_text())["packages"]
    assert [name for name, entry in packages.items() if "resolved" in entry] == []


def test_the_python_lock_file_pins_names_to_versions_only() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.+!]+", line)] == []
