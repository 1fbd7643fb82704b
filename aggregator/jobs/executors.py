"""Executors: where the parts of work on many rank files run.

Processes of this machine, workers of Celery, or a Dask cluster of the site. All run the same
parts (``aggregator.jobs.parts``), which read and write files: workers on other machines need them
under the same paths.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.errors import ExecutorError, UsageError
from aggregator.jobs.parts import Request, Result, raise_error, run_part
from aggregator.options import ImportOptions
from aggregator.ranks.pool import rank_database
from aggregator.ranks.rank_import import join_ranks, rank_folder, require_files
from aggregator.system.progress import Progress
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.dldb.import_writer import ImportResult

KINDS: Final = ("local", "celery", "dask")
_PACKAGES: Final = {"dask": "distributed", "celery": "celery"}


class Executor(Protocol):
    """Runs parts."""

    def map(self, name: str, requests: Sequence[Request]) -> Iterator[Result]:
        """Run a part for each request; results come in the order of the requests."""


@contextmanager
def open_executor(text: str, workers: int = 1) -> Iterator[Executor]:
    """Open an executor.

    Args:
        text: ``local``, ``celery``, ``dask``, or the last one with the address of its cluster:
            ``dask:tcp://10.0.0.1:8786``. Without one it starts workers on this machine.
        workers: Processes on this machine.

    Raises:
        UsageError: There is no such executor.
        ExecutorError: Its package is missing, or its cluster cannot be reached.
    """
    kind, _, address = text.partition(":")
    if kind not in KINDS or (address and kind != "dask"):
        raise UsageError(
            say("There is no executor '{name}'.", name=text),
            hint=say("Known are: {names}.", names="local, celery, dask[:ADDRESS]"),
        )
    try:
        if kind == "dask":
            with _dask(address, workers) as executor:
                yield executor
        elif kind == "celery":
            yield _celery()
        else:
            yield LocalExecutor(workers)
    except ModuleNotFoundError as error:
        raise ExecutorError(
            say(
                "The executor '{name}' needs the package {package}.",
                name=kind,
                package=_PACKAGES.get(kind, str(error.name)),
            ),
            hint=say("Install it: pip install {package}", package=_PACKAGES.get(kind, "")),
        ) from error


def run_parts(executor: Executor, name: str, requests: Sequence[Request]) -> Iterator[Result]:
    """Yield the results of a part for each request, in their order.

    Raises:
        DlprofError: The first that failed.
    """
    for result in executor.map(name, requests):
        raise_error(result)
        yield result


def import_ranks_by(
    executor: Executor, options: ImportOptions, sources: Sequence[Path], progress: Progress
) -> ImportResult:
    """Import rank files by an executor and join them here, as ``import_ranks`` does.

    The databases of the ranks lie in a folder beside the result, which all workers must reach.
    """
    require_files(sources)
    with rank_folder(options.database) as folder:
        requests = [
            {
                "source": str(source.absolute()),
                "database": str(rank_database(folder, number).absolute()),
                "mode": options.mode.value,
                "request": asdict(options.request),
                "nsys_path": options.nsys_path,
            }
            for number, source in enumerate(sources)
        ]
        progress.phase("import", len(requests))
        for source, _ in zip(sources, run_parts(executor, "import", requests), strict=True):
            progress.message(f"Imported {source}")
            progress.advance(1)
        return join_ranks(options, sources, folder, progress)


class LocalExecutor:
    """Processes of this machine; a single one is this process."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def map(self, name: str, requests: Sequence[Request]) -> Iterator[Result]:
        """Run a part for each request."""
        count = min(self._workers, len(requests))
        if count <= 1:
            yield from map(partial(run_part, name), requests)
            return
        # Fresh processes: a fork would copy the threads of the engine.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, mp_context=context) as pool:
            try:
                yield from pool.map(partial(run_part, name), requests)
            except BrokenProcessPool as error:
                raise ExecutorError(
                    say("A process that read rank files ended."),
                    hint=say("The machine may be short of memory: try with --workers=1."),
                ) from error
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class DaskExecutor:
    """A cluster of Dask."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def map(self, name: str, requests: Sequence[Request]) -> Iterator[Result]:
        """Run a part for each request."""
        # Not pure: a part writes files, so equal requests are no reason to leave one out.
        futures = self._client.map(partial(run_part, name), list(requests), pure=False)
        try:
            for future in futures:
                yield future.result()
        finally:
            self._client.cancel(futures)


@contextmanager
def _dask(address: str, workers: int) -> Iterator[Executor]:
    from distributed import Client, LocalCluster  # noqa: PLC0415 - an option of the site

    try:
        if address:
            client = Client(address, set_as_default=False)
        else:
            # Nothing listens beyond this machine.
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
            )
            client = Client(cluster, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise _unreachable("dask", address) from error
    with client:
        try:
            yield DaskExecutor(client)
        finally:
            if not address:
                cluster.close()


class CeleryExecutor:
    """Workers of Celery, those of the viewer, which run rank files."""

    def __init__(self, task: Any) -> None:
        self._task = task

    def map(self, name: str, requests: Sequence[Request]) -> Iterator[Result]:
        """Run a part for each request, as a group of the canvas."""
        from celery import group  # noqa: PLC0415 - an extra

        from aggregator.jobs.celery_app import RANK_QUEUE  # noqa: PLC0415

        signatures = [self._task.s(name=name, request=dict(request)) for request in requests]
        results: Any = group(signatures).apply_async(queue=RANK_QUEUE)
        try:
            for result in results.results:
                yield result.get()
        finally:
            results.forget()


def _celery() -> Executor:
    from aggregator.jobs.celery_app import app  # noqa: PLC0415 - an extra
    from aggregator.jobs.tasks import do_part, running_workers  # noqa: PLC0415

    hint = say("Set DLPROF_BROKER_URL, and start workers: celery -A aggregator worker")
    if app.conf.broker_url == "memory://":
        raise ExecutorError(say("The executor 'celery' needs a broker."), hint=hint)
    if not running_workers():
        raise ExecutorError(say("No worker of Celery is running."), hint=hint)
    return CeleryExecutor(do_part)


def _unreachable(kind: str, address: str) -> ExecutorError:
    where = address.rpartition("@")[2] or say("on this machine")
    return ExecutorError(
        say("The cluster of {name} cannot be used: {address}.", name=kind, address=where),
        hint=say("Check that it runs and that this machine reaches it."),
    )
