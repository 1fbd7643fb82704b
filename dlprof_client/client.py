"""Profiles in a notebook: pandas tables and Plotly figures, from a running viewer or from a file.

    from dlprof_client import connect

    run = connect("http://localhost:8000")      # or: connect("dlprof_dldb.sqlite")
    run.table("ops", ordering="-gpu_time_ns", using_tc="0").head(10)
    run.figure("iteration-summary").show()

Both return the same rows with the same names. Reading from a viewer needs only pandas, Plotly and
the standard library; no web framework is imported in either case. Times are in ns.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from aggregator.answers.registry import ask
from aggregator.errors import DlprofError
from aggregator.html_report.report import ReportRequest, write_html_report
from aggregator.system.replies import to_plain
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.arrow import to_arrow
from aggregator.tables.connection import opened
from aggregator.tables.declared.addresses import OBJECTS, TABLES, FoundTable, find_table
from aggregator.tables.declared.iterations import AGGREGATIONS
from aggregator.tables.declared.profile import domains
from dlprof_client.run import ClientError, Run

try:
    import pandas as pd
except ImportError as error:
    raise ImportError(
        "dlprof_client needs pandas and Plotly: pip install 'open-dlprof[notebook]'"
    ) from error

if TYPE_CHECKING:
    import pyarrow as pa

_TIMEOUT_S = 120.0


def connect(
    target: str | Path,
    *,
    profile: str | None = None,
    aggregation: int | None = None,
    domain: str | None = None,
    token: str | None = None,
) -> Run:
    """Open a profile.

    Args:
        target: Address of a running viewer, or path of a database.
        profile: Which of the viewer's profiles, by id or name; default: the first.
        aggregation: Number of the aggregation; default: the profile's default, else the newest.
        domain: NVTX domain; default: the default domain.
        token: Token of a viewer that requires one.

    Raises:
        ClientError: The viewer does not answer, or has no such profile or aggregation.
        DatabaseError: The file cannot be read.
    """
    if re.match(r"https?://", str(target)):
        return _ViewerRun(str(target), profile, aggregation, domain, token)
    return _FileRun(Path(target), aggregation, domain)


def _choose(rows: list[dict[str, Any]], wanted: int | None) -> int:
    """Return the aggregation to read: without a wish, the profile's default, else the newest."""
    known = [int(row["id"]) for row in rows]
    defaults = [int(row["id"]) for row in rows if row.get("is_default")]
    if wanted is None and known:
        return max(defaults or known)
    if wanted in known and wanted is not None:
        return wanted
    listed = ", ".join(map(str, known)) or "none"
    raise ClientError(f"There is no aggregation {wanted}.", hint=f"The profile has: {listed}.")


class _ViewerRun(Run):
    """Over HTTP."""

    def __init__(
        self,
        url: str,
        profile: str | None,
        aggregation: int | None,
        domain: str | None,
        token: str | None,
    ) -> None:
        self._api = f"{url.split('?', maxsplit=1)[0].rstrip('/')}/api/v1/"
        self._token = token
        self._profile = self._choose(profile)
        self.aggregation = _choose(self._aggregations(), aggregation)
        self.domain = domain or self._get(f"profiles/{self._profile}/")["domains"][0]

    def _choose(self, wanted: str | None) -> str:
        profiles = self._get("profiles/", page_size="200")["results"]
        for item in profiles:
            if wanted is None or wanted in {item["id"], item["name"], item["file_name"]}:
                return str(item["id"])
        listed = ", ".join(item["id"] for item in profiles) or "none"
        raise ClientError(f"The viewer has no profile {wanted!r}.", hint=f"It has: {listed}.")

    def _aggregations(self) -> list[dict[str, Any]]:
        path = f"profiles/{self._profile}/aggregations/"
        return list(self._get(path, page_size="200")["results"])

    def _scoped(self, path: str, **params: str) -> dict[str, Any]:
        base = f"profiles/{self._profile}/aggregations/{self.aggregation}/"
        return self._get(f"{base}{quote(path)}", domain=self.domain, **params)

    def _get(self, path: str, **params: str) -> dict[str, Any]:
        return dict(json.loads(self._fetch(path, **params)))

    def _fetch(self, path: str, **params: str) -> bytes:
        url = f"{self._api}{path}" + (f"?{urlencode(params)}" if params else "")
        headers = {"Accept": "application/json, text/html"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with urlopen(Request(url, headers=headers), timeout=_TIMEOUT_S) as answer:  # noqa: S310
                return bytes(answer.read())
        except HTTPError as error:
            raise _reply_error(error) from error
        except (URLError, TimeoutError) as error:
            raise ClientError(
                f"No viewer answers at {self._api}.",
                hint="Start it: dlprofviewer dlprof_dldb.sqlite",
            ) from error

    def ask(self, address: str, **params: Any) -> dict[str, Any]:
        given = {name: str(value) for name, value in params.items() if value is not None}
        return self._scoped(f"{address.strip('/')}/", **given)

    def table(self, name: str, **params: str) -> pd.DataFrame:
        answer = self._scoped(f"{name.strip('/')}/export/", format="json", **params)
        return pd.DataFrame(answer["results"], columns=answer["columns"])

    def html_report(self) -> str:
        path = f"profiles/{self._profile}/aggregations/{self.aggregation}/report/"
        return self._fetch(path, domain=self.domain).decode()

    def aggregations(self) -> pd.DataFrame:
        return pd.DataFrame(self._aggregations())


def _reply_error(error: HTTPError) -> ClientError:
    try:
        body = json.load(error)["error"]
        return ClientError(body["message"], hint=body["hint"])
    except (ValueError, KeyError, TypeError):
        return ClientError(f"The viewer answered {error.code} {error.reason}.")


def _found(name: str) -> FoundTable:
    found = find_table(name.strip("/"))
    if found is None:
        raise ClientError(f"There is no table {name!r}.", hint=f"Known: {', '.join(TABLES)}.")
    return found


class _FileRun(Run):
    """Reads the database directly, read only."""

    def __init__(self, path: Path, aggregation: int | None, domain: str | None) -> None:
        self._path = path
        with self._opened() as data:
            self.aggregation = _choose(data.rows(AGGREGATIONS), aggregation)
            names = self._domains = domains(data.database)
        self.domain = domain or names[0]
        if self.domain not in names:
            raise ClientError(
                f"There is no domain {domain!r}.", hint=f"The profile has: {', '.join(names)}."
            )

    @contextmanager
    def _opened(self) -> Iterator[AggregationData]:
        with opened(self._path, time_limit_s=_TIMEOUT_S) as database:
            yield AggregationData(database, {})

    @contextmanager
    def _scoped(self) -> Iterator[AggregationData]:
        with self._opened() as data:
            yield data.narrowed({"aggr_id": self.aggregation, "domain": self.domain})

    def ask(self, address: str, **params: Any) -> dict[str, Any]:
        given = {name: str(value) for name, value in params.items() if value is not None}
        name = address.strip("/")
        try:
            with self._scoped() as data:
                if name in OBJECTS:
                    return data.read_object(OBJECTS[name])
                found: dict[str, Any] = to_plain(ask(data, name, given))
                return found
        except DlprofError as error:
            raise ClientError(error.message, hint=error.hint) from error

    def table(self, name: str, **params: str) -> pd.DataFrame:
        found = _found(name)
        with self._scoped() as data:
            rows = data.narrowed(found.params).rows(found.spec, params)
        return pd.DataFrame(rows, columns=list(found.spec.by_name))

    def arrow(self, name: str, **params: str) -> pa.Table:
        """Return the same as an Arrow table, with the type and meaning of every column."""
        found = _found(name)
        with self._scoped() as data:
            return to_arrow(data.narrowed(found.params), found.spec, params)

    def html_report(self) -> str:
        stream = io.BytesIO()
        domains_shown = (self.domain, *(name for name in self._domains if name != self.domain))
        write_html_report(ReportRequest(self._path, self.aggregation, domains_shown), stream)
        return stream.getvalue().decode()

    def aggregations(self) -> pd.DataFrame:
        with self._opened() as data:
            return pd.DataFrame(data.rows(AGGREGATIONS), columns=list(AGGREGATIONS.by_name))
