"""Configuration and code on the pages, read by the programs that will read it, or as strictly."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

from tests.jobs.running import free_port
from tests.packaging.containers import REPOSITORY
from tests.packaging.pages import blocks

PAGES = sorted(
    str(path.relative_to(REPOSITORY))
    for path in (*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"))
)
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
OPENSSL = shutil.which("openssl")
#: The suffixes of nginx's units: a size has no g, an offset has one.
_SIZE, _OFFSET, _TIME = r"\d+[kKmM]?", r"\d+[kKmMgG]?", r"\d+(ms|s|m|h|d|w|M|y)?"
NGINX_ARGUMENTS = {
    "limit_req_zone": r"\$\w+ zone=\w+:\d+[kKmM] rate=\d+r/[sm]",
    "limit_conn_zone": r"\$\w+ zone=\w+:\d+[kKmM]",
    "limit_req": r"zone=\w+ burst=\d+",
    "limit_conn": r"\w+ \d+",
    "listen": r"(\S+:)?\d+( ssl)?",
    "server_name": r"\S+",
    "ssl_certificate": r"/\S+",
    "ssl_certificate_key": r"/\S+",
    "client_header_timeout": _TIME,
    "client_body_timeout": _TIME,
    "send_timeout": _TIME,
    "proxy_pass": r"http://\S+",
    "proxy_set_header": r"[\w-]+ \S+",
    "client_max_body_size": _OFFSET,
    "proxy_request_buffering": "on|off",
    "proxy_buffering": "on|off",
    "proxy_max_temp_file_size": _SIZE,
    "proxy_read_timeout": _TIME,
}


def _blocks(language: str) -> Iterator[object]:
    """Each block of a language on any page, named by its page and place."""
    for page in PAGES:
        for place, text in enumerate(blocks(page, language), start=1):
            yield pytest.param(text, id=f"{page}-{place}")


@pytest.mark.parametrize("text", list(_blocks("nginx")))
def test_nginx_blocks_have_known_directives_with_fitting_values(text: str) -> None:
    plain = re.sub(r"#.*", "", text)
    assert plain.count("{") == plain.count("}")
    assert (
        re.sub(r"[{};][^{};]*", "", re.sub(r"\s*[\w$./ :=-]+\s*(?=[{};])", "", plain)).strip() == ""
    )
    for statement in re.findall(r"([^{};]+);", plain):
        name, _, arguments = " ".join(statement.split()).partition(" ")
        assert re.fullmatch(NGINX_ARGUMENTS[name], arguments), statement.strip()


@pytest.mark.skipif(not (NGINX and OPENSSL), reason="no nginx or openssl program")
@pytest.mark.parametrize("text", list(_blocks("nginx")))
def test_nginx_takes_its_blocks(text: str, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *(str(OPENSSL), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=profiles.example.org", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    text = re.sub(r"(ssl_certificate_key) \S+;", rf"\1 {key};", text)
    text = re.sub(r"(ssl_certificate) \S+;", rf"\1 {certificate};", text)
    text = re.sub(r"listen \d+", f"listen 127.0.0.1:{free_port()}", text)
    assert _nginx_says(text, tmp_path) == ""
    # It would complain.
    assert "invalid value" in _nginx_says(text.replace("4096m", "4g"), tmp_path)


def _nginx_says(http: str, folder: Path) -> str:
    paths = " ".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    file.write_text(
        f"pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {paths}\n{http} }}\n"
    )
    words = [str(NGINX), "-t", "-q", "-c", str(file), "-p", str(folder)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("text", list(_blocks("ini")))
def test_ini_blocks_are_units_or_variables(text: str) -> None:
    unit = ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text if text.startswith("[") else f"[Variables]\n{text}")
    for section in unit.values():
        for name, value in section.items():
            assert re.fullmatch(r"[A-Z][A-Za-z_]+", name)
            assert value


@pytest.mark.parametrize("text", list(_blocks("yaml")))
def test_yaml_blocks_are_documents_of_their_program(text: str) -> None:
    documents = list(yaml.safe_load_all(text))
    objects = [{"apiVersion", "kind", "metadata", "spec"} <= set(one) for one in documents]
    if len(documents) > 1 or all(objects):  # Objects of Kubernetes.
        assert all(objects)
        return
    # A workflow, or a job of GitLab.
    (found,) = documents
    jobs = found.get("jobs", {}).values()
    scripts = [job for job in found.values() if isinstance(job, dict) and "script" in job]
    assert jobs or scripts
    for job in jobs:
        assert job["runs-on"]
        assert all({"uses", "run"} & set(step) for step in job["steps"])
    for job in scripts:
        for line in job["script"]:
            _check_shell(line)


@pytest.mark.parametrize("text", list(_blocks("json")))
def test_json_blocks_are_json(text: str) -> None:
    assert json.loads(text)


@pytest.mark.parametrize("text", list(_blocks("toml")) or [pytest.param("x = 1", id="none")])
def test_toml_blocks_are_toml(text: str) -> None:
    assert tomllib.loads(text)


@pytest.mark.parametrize("text", list(_blocks("python")))
def test_python_blocks_are_python(text: str) -> None:
    assert ast.parse(text).body


@pytest.mark.parametrize("text", [*_blocks("bash"), *_blocks("sh")])
def test_bash_blocks_are_scripts(text: str) -> None:
    _check_shell(text)


def _check_shell(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_every_marked_block_is_of_a_language_that_is_checked() -> None:
    """``console`` and ``sql`` are run by other tests, as far as they can be run here."""
    found = {
        language
        for page in PAGES
        for language in re.findall(r"^ *```(\w+)$", (REPOSITORY / page).read_text("utf-8"), re.M)
    }
    checked = {"nginx", "ini", "yaml", "json", "toml", "python", "bash", "sh"}
    assert found - checked <= {"console", "sql", "redis", "mermaid", "text", "toctree", "eval_rst"}
