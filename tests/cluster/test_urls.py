"""Profiles at URLs: where copies lie, what is refused, that no message has a secret."""

from __future__ import annotations

import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aggregator.errors import DownloadError, ProfileNotFoundError
from aggregator.system import remote_files
from aggregator.system.remote_files import is_url, kept_names, local_file, matching_urls, shown_url
from profiler_cli.dlprof import main
from tests.cluster.job import rank_exports

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

SECRET = "s3cr3t"


class Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/denied"):
            self.send_error(403, f"token {SECRET} is not valid")
        elif self.path.startswith("/short"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x" * 10)
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served")
    rank_exports(path, slow=1, share=0.2)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(path))
    return path


def test_a_copy_is_private_keeps_its_names_and_is_removed(own_temporary_folder: Path) -> None:
    fsspec.filesystem("memory").pipe("/bucket/rank3/dlprof_dldb.sqlite", b"abc" * 1000)
    with ExitStack() as stack:
        path = local_file("memory://bucket/rank3/dlprof_dldb.sqlite", stack)
        assert path.read_bytes() == b"abc" * 1000
        assert path.parts[-2:] == ("rank3", "dlprof_dldb.sqlite")
        (private,) = own_temporary_folder.iterdir()
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert list(own_temporary_folder.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["../../x.sqlite", "a/../../x;rm -rf", "", "..", "a b/%2e%2e/c", "a/\\..\\b", "/.//./"]
)
def test_no_name_leaves_the_folder(path: str, tmp_path: Path) -> None:
    names = kept_names(f"s3://bucket/{path}")
    assert names
    assert not any(set(name) & set("/\\ ;") or name in {".", "..", ""} for name in names)
    assert tmp_path in tmp_path.joinpath(*names).resolve().parents


def test_patterns_are_the_files_that_match() -> None:
    files = fsspec.filesystem("memory")
    for rank in (0, 1):
        files.pipe(f"/many/rank{rank}/x.sqlite", b"x")
    found = matching_urls("memory://many/rank*/x.sqlite")
    assert [url.rpartition("many")[2] for url in found] == ["/rank0/x.sqlite", "/rank1/x.sqlite"]
    assert matching_urls("https://host/a*b") == ["https://host/a*b"]
    with pytest.raises(ProfileNotFoundError):
        matching_urls("memory://many/none*")


def test_what_is_a_url() -> None:
    assert is_url("s3://bucket/x.sqlite")
    assert is_url("HTTPS://host/x")
    assert not is_url("tcp://10.0.0.1:8786")
    assert not is_url("file:///etc/passwd")
    assert not is_url("simplecache::s3://bucket/x")
    assert not is_url("rank0.sqlite")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/denied?token=", "ClientResponseError 403"),
        ("/short?token=", "ClientPayloadError"),
    ],
)
def test_errors_are_one_sentence_without_secrets(server: str, path: str, reason: str) -> None:
    url = server.replace("://", f"://user:{SECRET}@") + path + SECRET
    with pytest.raises(DownloadError, match=reason) as found, ExitStack() as stack:
        local_file(url, stack)
    assert SECRET not in str(found.value.to_dict())
    assert found.value.__cause__ is None
    assert SECRET not in shown_url(url)


def test_missing_file_and_dead_server_are_distinguished(server: str) -> None:
    with pytest.raises(ProfileNotFoundError), ExitStack() as stack:
        local_file(f"{server}/none.sqlite", stack)
    with pytest.raises(DownloadError, match="ClientConnectorError"), ExitStack() as stack:
        local_file("http://127.0.0.1:9/x.sqlite", stack)


def test_a_package_that_is_missing_is_named() -> None:
    if __import__("importlib.util").util.find_spec("s3fs"):
        pytest.skip("s3fs is installed")
    with pytest.raises(DownloadError) as found, ExitStack() as stack:
        local_file("s3://bucket/x.sqlite", stack)
    assert "pip install s3fs" in found.value.hint


def test_a_file_larger_than_the_disk_is_refused(
    server: str, own_temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = remote_files.RESERVE_BYTES + 100
    usage = shutil.disk_usage(own_temporary_folder)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DownloadError, match="too large"), ExitStack() as stack:
        local_file(f"{server}/export0.sqlite", stack)
    assert list(own_temporary_folder.iterdir()) == []


def test_the_commands_take_urls(
    server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_temporary_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    signed = f"{server}/export0.sqlite?X-Amz-Signature={SECRET}"
    urls = [signed, *(f"{server}/export{rank}.sqlite" for rank in (1, 2))]
    words = [f"--database={','.join(urls)}", "-v", "quiet", "--output_path=joined"]
    assert main(words) == 0
    assert SECRET.encode() not in (tmp_path / "joined/dlprof_dldb.sqlite").read_bytes()
    assert main(["stragglers", "joined/dlprof_dldb.sqlite"]) == 0
    assert "Without rank 1 the step takes" in capsys.readouterr().out
    assert main(["summarize", urls[0], "--workers=1"]) == 0
    assert (tmp_path / "export0.ranks.parquet").is_file()
    assert main(["export", "--format=prometheus", urls[0]]) == 0
    assert (tmp_path / "export0.prom").is_file()
    assert main(["export", "--format=prometheus", urls[0], "-o", f"{server}/x"]) == 2
    assert main([f"--database={server}/none.sqlite"]) == 4
    assert "There is no file at" in capsys.readouterr().err
    assert list(own_temporary_folder.iterdir()) == []
