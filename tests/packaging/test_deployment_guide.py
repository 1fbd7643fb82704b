"""The programs that read what docs/deploy.md has operators copy accept it."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
import redis

from profiler_cli.dlprofviewer import parse_options
from tests.jobs.running import free_port
from tests.jobs.workers import wait_until_listening
from tests.packaging.containers import REPOSITORY
from tests.packaging.pages import blocks

GUIDE = (REPOSITORY / "docs" / "deploy.md").read_text()
#: Without a word of a section in front: systemd's own paths do not matter here.
PROGRAMS = "/opt/dlprof/bin"


def units() -> dict[str, str]:
    """The unit files of the guide, by their names."""
    found = re.findall(r"`/etc/systemd/system/([^`]+)`.*?```ini\n(.*?)```", GUIDE, re.DOTALL)
    return dict(found)


def test_the_units_start_existing_commands() -> None:
    words = {}
    for name, text in units().items():
        unit = ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read_string(text)
        words[name] = unit["Service"]["ExecStart"].split()
        assert unit["Install"]["WantedBy"] == "multi-user.target"
    web, worker = words["dlprof-web.service"], words["dlprof-worker@.service"]
    assert (web[0], worker[0]) == (f"{PROGRAMS}/dlprofviewer", f"{PROGRAMS}/celery")
    options = parse_options(web[1:])
    assert options.allowed_hosts == ["profiles.example.org"]
    assert worker[1:4] == ["-A", "aggregator", "worker"]


def test_the_steps_make_what_the_units_need() -> None:
    steps = "\n".join(blocks("docs/deploy.md", "console"))
    text = "\n".join(units().values())
    for user in set(re.findall(r"^User=(.+)$", text, re.MULTILINE)):
        assert re.search(rf"^useradd .* {user}$", steps, re.MULTILINE)
    state = {f"/var/lib/{name}" for name in re.findall(r"^StateDirectory=(.+)$", text, re.M)}
    made = {word for line in steps.splitlines() if "install" in line for word in line.split()}
    for line in re.findall(r"^ReadWritePaths=(.+)$", text, re.MULTILINE):
        assert set(line.split()) <= made | state
    (variables,) = [one for one in blocks("docs/deploy.md", "ini") if one.startswith("DLPROF")]
    for name, path in re.findall(r"^(DLPROF_\w+)=(/\S+)$", variables, re.MULTILINE):
        assert path in made | state, name
    for name in units():
        assert f"systemctl enable --now {name.split('.')[0]}" in steps
    assert f"{PROGRAMS}/pip install" in steps


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server program")
def test_redis_takes_its_settings(tmp_path: Path) -> None:
    (settings,) = blocks("docs/deploy.md", "redis")
    password = re.search(r"^requirepass (\S+)$", settings, re.MULTILINE)
    assert password is not None
    assert f":{password[1]}@10.0.0.5:6379/0" in GUIDE
    file = tmp_path / "redis.conf"
    port = free_port()
    own = settings.replace("bind 127.0.0.1 10.0.0.5", f"bind 127.0.0.1\nport {port}")
    file.write_text(f"{own}dir {tmp_path}\n")
    server = subprocess.Popen(["redis-server", str(file)], stdout=subprocess.DEVNULL)
    try:
        wait_until_listening(port)
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port).ping()
        assert redis.Redis(port=port, password=password[1]).ping()
    finally:
        server.terminate()
        server.wait()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze program")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name, text in units().items():
        file = tmp_path / name.replace("@.", "@1.")
        file.write_text(re.sub(rf"{PROGRAMS}/\w+", str(program), text))
        assert _complaints(file) == ""
    # It would complain.
    broken = tmp_path / "broken.service"
    broken.write_text(f"[Service]\nExecStart={program}\nRestart=sometimes\n")
    assert "restart specifier" in _complaints(broken)


def _complaints(unit: Path) -> str:
    """What is said of the unit itself; the machine's own units may have faults, too."""
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join(line for line in lines if unit.name in line or str(unit.parent) in line)
