"""Files at URLs, which are streamed into private temporary files.

``fsspec`` knows the protocols: http and https by itself, s3 with the package s3fs, gs with gcsfs.
Credentials are the environment's, as those packages read them. Messages contain neither the user
part nor the query of a URL, nor texts of the packages, which repeat them.
"""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.errors import DlprofError, DownloadError, ProfileNotFoundError
from aggregator.system.temporary_files import temporary_folder
from aggregator.texts import say

PROTOCOLS: Final = frozenset(
    {
        *("http", "https", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"),
        *("hdfs", "webhdfs", "ftp", "sftp", "oss", "memory"),
    }
)
PURPOSE: Final = "dlprof-url"
RESERVE_BYTES: Final = 256 * 2**20
"""Space that a download leaves on the disk."""
_SILENCE_S: Final = 60
_URL: Final = re.compile(r"([a-z][a-z0-9]*)://", re.IGNORECASE)
_MAGIC: Final = re.compile(r"[*?\[]")
_UNSAFE: Final = re.compile(r"[^\w.=@+-]")
_PACKAGES: Final = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}


def is_url(text: str) -> bool:
    """Return whether a text is a URL of a protocol that is read."""
    found = _URL.match(text)
    return found is not None and found[1].lower() in PROTOCOLS


def shown_url(url: str) -> str:
    """Return a URL for messages, without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def local_file(url: str, stack: ExitStack) -> Path:
    """Copy a file at a URL into a private folder, which the stack removes.

    The last two names of its path are kept, by which ranks are numbered.

    Raises:
        ProfileNotFoundError: There is no such file.
        DownloadError: It cannot be read, or the disk is too small for it.
    """
    folder = stack.enter_context(temporary_folder(PURPOSE))
    target = folder.joinpath(*kept_names(url))
    target.parent.mkdir(parents=True, exist_ok=True)
    files, path = _file_system(url)
    try:
        files.get_file(path, str(target), callback=_limited(folder, url))
    except DlprofError:
        raise
    except Exception as error:  # noqa: BLE001 - each protocol has errors of its own
        raise _failed(url, error) from None
    return target


def kept_names(url: str) -> list[str]:
    """Return the last names of a URL's path as names of a folder and a file."""
    names = [_UNSAFE.sub("_", name) for name in PurePosixPath(urlsplit(url).path).parts[-2:]]
    return [name for name in names if name.strip("._")] or ["profile"]


def matching_urls(url: str) -> list[str]:
    """Return the URLs that match a pattern, by name; a URL that is no pattern is returned as it is.

    Raises:
        ProfileNotFoundError: None does.
        DownloadError: They cannot be listed.
    """
    parts = urlsplit(url)
    if parts.scheme.lower() in {"http", "https"} or not _MAGIC.search(parts.path):
        return [url]
    files, path = _file_system(url)
    try:
        found = sorted(str(files.unstrip_protocol(file)) for file in files.glob(path))
    except Exception as error:  # noqa: BLE001 - each protocol has errors of its own
        raise _failed(url, error) from None
    if not found:
        raise ProfileNotFoundError(say("There is no file at '{url}'.", url=shown_url(url)))
    return found


def output_path(source: Path, name: str) -> Path:
    """The path of a result: beside its source, or in the working directory if that was a URL."""
    is_fetched = any(part.startswith(PURPOSE) for part in source.parts)
    return Path(name) if is_fetched else source.with_name(name)


def _file_system(url: str) -> tuple[Any, str]:
    protocol = urlsplit(url).scheme.lower()
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra

        options = _http_options() if protocol in {"http", "https"} else {}
        files, path = url_to_fs(url, **options)
    except ImportError as error:
        package = _PACKAGES.get(protocol, "fsspec")
        is_extra = package == "fsspec" or error.name == "fsspec"
        raise DownloadError(
            say("'{url}' cannot be read: a package is missing.", url=shown_url(url)),
            hint=say(
                "Install it: pip install {package}",
                package="'open-dlprof[url]'" if is_extra else package,
            ),
        ) from None
    except Exception as error:  # noqa: BLE001 - each protocol has errors of its own
        raise _failed(url, error) from None
    return files, str(path)


def _http_options() -> dict[str, Any]:
    """Limit silence but not the whole time, which a large file needs."""
    from aiohttp import ClientTimeout  # noqa: PLC0415 - an extra

    timeout = ClientTimeout(total=None, sock_connect=_SILENCE_S, sock_read=_SILENCE_S)
    return {"client_kwargs": {"timeout": timeout, "trust_env": True}}


def _limited(folder: Path, url: str) -> Any:
    """Return a listener of a download that ends it before the disk is full."""
    from fsspec.callbacks import Callback  # noqa: PLC0415 - an extra

    class Limited(Callback):  # type: ignore[misc, unused-ignore]
        def set_size(self, size: int | None) -> None:
            super().set_size(size)
            _require_room(folder, url, size or 0)

        def relative_update(self, inc: int = 1) -> None:
            super().relative_update(inc)
            _require_room(folder, url, 0)

    return Limited()


def _require_room(folder: Path, url: str, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size + RESERVE_BYTES:
        raise DownloadError(
            say(
                "'{url}' is too large for the {free} MB that are free in {folder}.",
                url=shown_url(url),
                free=f"{free / 1e6:,.0f}",
                folder=str(folder.parent),
            ),
            hint=say("Set TMPDIR to a folder on a larger disk."),
        )


def _failed(url: str, error: Exception) -> DlprofError:
    """Return the error of a download: its kind, and the status of a reply, nothing of its text."""
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status == 404:
        return ProfileNotFoundError(say("There is no file at '{url}'.", url=shown_url(url)))
    reason = type(error).__name__ + (f" {status}" if isinstance(status, int) else "")
    is_refused = isinstance(error, PermissionError) or status in {401, 403}
    hint = say("Check the address and the network.")
    if is_refused:
        hint = say("Check the credentials in the environment.")
    return DownloadError(
        say("'{url}' cannot be read: {error}.", url=shown_url(url), error=reason), hint=hint
    )
