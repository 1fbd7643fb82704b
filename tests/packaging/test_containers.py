"""The image and the compose file, as far as they can be checked without a Docker engine."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from hatch_build import BUILT
from profiler_cli.dlprofviewer import DEFAULT_PORT, parse_options
from tests.packaging.containers import (
    COMPOSE,
    PASSWORD,
    REPOSITORY,
    TOKEN,
    Stage,
    compose_program,
    context_files,
    in_context,
    read_dockerfile,
    resolved_compose,
)

#: The schema of the Compose Specification (github.com/compose-spec, Apache License 2.0).
SCHEMA = REPOSITORY / "tests" / "data" / "compose_spec.json"


@pytest.fixture
def compose(tmp_path: Path) -> dict[str, Any]:
    return resolved_compose(tmp_path)


def test_compose_file_follows_the_specification(compose: dict[str, Any]) -> None:
    validator = Draft7Validator(json.loads(SCHEMA.read_text()))
    plain: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())

    for document in (plain, compose):
        assert [error.message for error in validator.iter_errors(document)] == []
    # The schema would find what is wrong.
    plain["services"]["web"]["restarts"] = "always"
    assert list(validator.iter_errors(plain))


@pytest.mark.skipif(not compose_program(), reason="no docker compose program")
def test_compose_itself_takes_it_and_asks_for_the_token(tmp_path: Path) -> None:
    assert set(resolved_compose(tmp_path)["services"]) == {"web", "worker", "redis"}
    done = subprocess.run(
        [*compose_program(), "--file", str(COMPOSE), "config"],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "to a secret of your own" in done.stderr


def test_each_service_has_what_it_needs_and_no_more(compose: dict[str, Any]) -> None:
    services = compose["services"]
    image = read_dockerfile()[-1]
    for service in services.values():
        assert {"image", "build"} & set(service)
        for name in service.get("depends_on", {}):
            assert "healthcheck" in services[name]
        # No rights beyond those of a user, nothing to write to but volumes, and limits.
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"]
        assert service["init"]
        assert {"mem_limit", "pids_limit"} <= set(service)
        assert service["logging"]["options"]["max-size"]
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            assert source in compose["volumes"] or source.startswith("/")
            assert target in json.loads(image.all_of("VOLUME")[0])
    # A worker gets the broker and the profiles, not the state and not the token.
    assert set(services["worker"]["environment"]) == {"DLPROF_BROKER_URL", "DLPROF_UPLOAD_DIR"}
    assert not [volume for volume in services["worker"]["volumes"] if "state" in volume]
    assert services["web"]["environment"]["DLPROF_TOKEN"] == TOKEN
    # Redis asks for the password that the others have.
    assert services["redis"]["command"][-2:] == ["--requirepass", PASSWORD]
    assert f":{PASSWORD}@redis:" in services["worker"]["environment"]["DLPROF_BROKER_URL"]
    host, outer, inner = services["web"]["ports"][0].partition("/")[0].split(":")
    assert (host, outer, inner) == ("127.0.0.1", "8000", image.all_of("EXPOSE")[0])


def test_the_image_starts_the_viewer_on_the_port_that_it_exposes() -> None:
    image = read_dockerfile()[-1]
    entrypoint, words = image.words_of("ENTRYPOINT"), image.words_of("CMD")
    options = parse_options(words)

    assert entrypoint == ["dlprofviewer"]
    assert (options.port, options.address) == (DEFAULT_PORT, "0.0.0.0")
    assert image.all_of("EXPOSE") == [str(DEFAULT_PORT)]
    assert f"127.0.0.1', {DEFAULT_PORT}" in " ".join(image.health_command())
    # Nothing runs as root.
    kinds = [kind for kind, _ in image.steps]
    assert kinds.index("USER") < kinds.index("ENTRYPOINT")


def test_copied_files_exist_and_are_sent_to_the_builder() -> None:
    stages = read_dockerfile()
    names = {stage.name for stage in stages}
    for stage in stages:
        for line in stage.all_of("COPY"):
            *sources, _ = shlex.split(line)
            if sources[0].startswith("--from="):
                assert sources[0].removeprefix("--from=") in names
                continue
            for source in sources:
                assert (REPOSITORY / source).exists(), source
                assert source in {".", "./"} or in_context(source), source


@pytest.mark.parametrize(
    ("name", "is_in"),
    [
        ("aggregator/pipeline.py", True),
        ("docs/views/en/ops.md", True),
        ("docs/deploy.md", False),
        ("frontend/src/main.tsx", True),
        ("frontend/node_modules/x/y.js", False),
        ("frontend/src/api/types.ts", False),
        ("frontend/src/table/declared.ts", False),
        ("frontend/src/i18n/zh.ts", False),
        ("docs/openapi.json", False),
        ("scripts/write_openapi.py", True),
        ("scripts/release.py", False),
        ("viewer/static/dlprof/index.js", False),
        ("aggregator/html_report/page.html", False),
        ("tests/conftest.py", False),
        (".git/config", False),
        ("viewer/__pycache__/x.pyc", False),
    ],
)
def test_the_builder_gets_sources_only(name: str, is_in: bool) -> None:
    assert in_context(name) is is_in


def test_everything_that_is_built_gets_into_the_wheel() -> None:
    page, wheel = read_dockerfile()[1:3]
    fetched = [
        shlex.split(line)[1:]
        for line in wheel.all_of("COPY")
        if line.startswith(f"--from={page.name} ")
    ]
    for built in BUILT:
        assert any(
            built.startswith(target) and source == f"/source/{target}" for source, target in fetched
        ), built


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm")
def test_the_image_can_be_built_by_hand(tmp_path: Path) -> None:
    """The steps of all stages but the last in a folder each; packages are those installed."""
    modules = REPOSITORY / "frontend" / "node_modules"
    if not modules.exists():
        pytest.skip("the page's packages are not installed")
    api, page, wheel = read_dockerfile()[:3]
    folders = {stage.name: tmp_path / stage.name for stage in (api, page, wheel)}
    packages = (
        'DLPROF_SKIP_FRONTEND_BUILD=1 pip install --no-cache-dir -c constraints.txt ".[viewer]"'
    )
    _run_stage(api, folders, {packages: "true", "python ": f"{sys.executable} "})
    _run_stage(page, folders, {"npm ci --no-audit --no-fund": f"ln -s {modules} node_modules"})
    here = f"{sys.executable} -m build --no-isolation --wheel"
    _run_stage(
        wheel,
        folders,
        {"pip install --no-cache-dir build": "true", "python -m build --wheel": here},
    )

    (made,) = (folders[wheel.name] / "source" / "dist").glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", tmp_path / "image", made], check=True)
    shown = subprocess.run(
        [sys.executable, "-c", "from profiler_cli.dlprofviewer import main; main(['--version'])"],
        env={"PYTHONPATH": str(tmp_path / "image")},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert shown.stdout.startswith("dlprofviewer "), shown.stderr
    for name in (*BUILT, "aggregator/dldb/schema.sql"):
        assert (tmp_path / "image" / name).is_file(), name


def _run_stage(stage: Stage, folders: dict[str, Path], instead: dict[str, str]) -> None:
    """Follow a stage's WORKDIR, COPY and RUN below a folder that stands for its root."""
    root = folders[stage.name]
    here = root
    for kind, rest in stage.steps:
        if kind == "WORKDIR":
            here = root / rest.strip("/")
            here.mkdir(parents=True)
        elif kind == "COPY":
            _copy(shlex.split(rest), root, here, folders)
        elif kind == "RUN":
            line = rest
            for theirs, ours in instead.items():
                line = line.replace(theirs, ours)
            done = subprocess.run(
                ["bash", "-ec", line], cwd=here, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"


def _copy(words: list[str], root: Path, here: Path, folders: dict[str, Path]) -> None:
    *sources, target = words
    base = root / target.strip("/") if target.startswith("/") else here / target
    if sources[0].startswith("--from="):
        theirs = folders[sources[0].removeprefix("--from=")] / sources[1].strip("/")
        base.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if theirs.is_dir() else shutil.copy2)(theirs, base)
        return
    for name in context_files():
        for source in sources:
            plain = source.strip("./")
            if name == plain:
                copy = base / Path(name).name
            elif not plain or name.startswith(f"{plain}/"):
                copy = base / name.removeprefix(plain).lstrip("/")
            else:
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, copy)
