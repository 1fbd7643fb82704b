"""Parts of work on many rank files that any machine can do.

A part is a function of this module with a name; its request and its result are JSON objects, so
that Celery, Dask and other processes run it alike. It needs the files, nothing else of the
process that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeAlias

from aggregator import errors
from aggregator.errors import DlprofError, JSONValue
from aggregator.options import AggregationRequest, ImportOptions, Mode
from aggregator.pipeline import convert_into
from aggregator.ranks.pool import import_rank_file
from aggregator.ranks.summarize import summarize_file
from aggregator.system.progress import NullProgress
from aggregator.system.remote_files import is_url, local_file, shown_url

Request: TypeAlias = Mapping[str, Any]
Result: TypeAlias = dict[str, JSONValue]


def _import(request: Request) -> Result:
    """Import a rank file: ``source``, ``database``, ``mode``, ``request``, ``nsys_path``."""
    database = Path(request["database"])
    options = ImportOptions(
        source=Path(request["source"]),
        database=database,
        mode=Mode(request["mode"]),
        request=AggregationRequest(**request["request"]),
        nsys_path=request["nsys_path"],
    )
    return {"database": str(import_rank_file(options, NullProgress()))}


def _summarize(request: Request) -> Result:
    """Summarize a file: ``source`` (or URL), ``target``, ``aggregation``, ``first_rank``."""
    with ExitStack() as stack:
        source = request["source"]
        path = local_file(source, stack) if is_url(source) else Path(source)
        made = summarize_file(
            path,
            Path(request["target"]),
            shown_source=shown_url(source) if is_url(source) else str(path.absolute()),
            aggregation=request["aggregation"],
            first_rank=request["first_rank"],
            overwrite=request["overwrite"],
        )
    return {"target": request["target"], "rows": made.rows, "bytes": made.bytes}


def _convert(request: Request) -> Result:
    """Convert a database of NVIDIA's: ``source``, ``target``."""
    source, target = Path(request["source"]), Path(request["target"])
    convert_into(source, target, NullProgress(), overwrite=True)
    return {"target": request["target"]}


PARTS: Final[Mapping[str, Callable[[Request], Result]]] = {
    "import": _import,
    "convert": _convert,
    "summarize": _summarize,
}


def run_part(name: str, request: Request) -> Result:
    """Do a part; its result has ``error`` if it failed. Errors as such may not be picklable."""
    try:
        return PARTS[name](request)
    except DlprofError as error:
        return {"error": {**error.to_dict(), "class": type(error).__name__}}


def raise_error(result: Mapping[str, Any]) -> None:
    """Raise the error of a part that failed as it was raised there."""
    if (found := result.get("error")) is None:
        return
    kind = getattr(errors, str(found["class"]), DlprofError)
    if not (isinstance(kind, type) and issubclass(kind, DlprofError)):
        kind = DlprofError
    raise kind(found["message"], hint=found["hint"], **found["details"])
