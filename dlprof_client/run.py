"""Questions that a notebook can ask about one aggregation of a profile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from aggregator.errors import DlprofError
from dlprof_client.cells import Page, run_html

if TYPE_CHECKING:
    import pyarrow as pa
    from plotly.graph_objects import Figure


_MOST_ADVICE: Final = 5


class ClientError(DlprofError):
    """The viewer does not respond, or a name is unknown."""

    code = "CLIENT"


class Run(ABC):
    """One aggregation of one profile, in one domain."""

    aggregation: int
    domain: str

    @abstractmethod
    def ask(self, address: str, **params: Any) -> dict[str, Any]:
        """Ask for an answer of the REST API.

        Args:
            address: Below the aggregation: ``critical-path``, ``ops/CONV2D_1/calls``.
            params: Its query parameters; those that are None are left out.

        Raises:
            ClientError: There is no such answer, or it cannot be given.
        """

    @abstractmethod
    def table(self, name: str, **params: str) -> pd.DataFrame:
        """Return all rows of a table.

        Args:
            name: ``ops``, ``kernels``, ``op-types``, ``group-ops``, ``gpus``, ``iterations``,
                ``iterations/3/ops``, ``iterations/3/kernels``, ``ops/CONV2D_1/kernels``.
            params: ``ordering``, ``search`` and filters as in the REST API:
                ``ordering="-gpu_time_ns"``, ``op_name__icontains="conv"``, ``using_tc="0"``.
        """

    def arrow(self, name: str, **params: str) -> pa.Table:
        """Return the same as an Arrow table, for DuckDB and Polars; args are those of ``table``."""
        # pyarrow takes a while to load.
        import pyarrow as pa  # noqa: PLC0415

        return pa.Table.from_pandas(self.table(name, **params), preserve_index=False)

    def summary(self, name: str) -> dict[str, Any]:
        """Return a panel of the dashboard: ``performance-summary``, ``resource-usage``, and so on.

        Unknown values are None, with the reasons under ``unknown``.
        """
        return self.ask(name)

    def verdict(self) -> dict[str, Any]:
        """Return what limits a step: ``limit``, ``sentence``, ``share_pct`` and ``advice``."""
        return self.ask("verdict")

    @abstractmethod
    def html_report(self) -> str:
        """Return the aggregation as one HTML file that needs no server."""

    def show(self, height: int = 800) -> Page:
        """Return the page in a cell: as the last value of a cell it is shown there.

        The cell holds the report in one file, so it needs no connection from the browser to the
        viewer: it works behind JupyterHub and in remote notebooks as it is.

        Args:
            height: In pixels.
        """
        return Page(self.html_report(), height)

    def op_calls(self, op_id: str) -> dict[str, Any]:
        """Return the calls of an op: times by iteration, histograms of a call's times, shapes."""
        return self.ask(f"ops/{op_id}/calls")

    def kernel_launches(self, name: str) -> dict[str, Any]:
        """Return the launches of a kernel: sums, times by iteration, histogram, launch sizes.

        Args:
            name: Its full name, or a short name, which stands for all kernels that share it.
        """
        return self.ask(f"kernels/{name}/launches")

    def critical_path(self, iteration: int | None = None) -> dict[str, Any]:
        """Return what the steady steps wait for, by kind and op, and the chain of one step.

        Args:
            iteration: Iteration of the chain; None: that of median length.
        """
        return self.ask("critical-path", iteration_index=iteration)

    def op_sensitivity(self) -> pd.DataFrame:
        """For each op: time on the critical path, slack, and what a step gains when it gains."""
        return pd.DataFrame(self.ask("op-sensitivity")["ops"])

    def what_if(self, **changes: str) -> dict[str, Any]:
        """Return the step with changes, from a replay.

        Args:
            changes: Those that ``ask("what-if/changes")`` lists: ``speedup="conv2d=2x"``,
                ``remove="layer_norm"``, ``no_sync="1"``.
        """
        return self.ask("what-if", **changes)

    def stragglers(self) -> dict[str, Any]:
        """Return which rank makes the step slow, and the step without its slowness."""
        return self.ask("stragglers")

    def memory(self) -> dict[str, Any]:
        """Return the recordings of GPU memory: totals, the peak by kind, steps, what grows."""
        return self.ask("memory")

    def memory_alive(self, event: int, recording: int = 1) -> dict[str, Any]:
        """What lives after an event of a recording: by kind, and by module and op with stacks.

        Args:
            event: Its number; ``peak_event`` of ``memory()`` is that of the peak.
            recording: Number of the recording, from 1.
        """
        return self.ask("memory/alive", event=event, recording=recording)

    def recommendations(self) -> pd.DataFrame:
        """Return the problems found, and what to do about them."""
        return pd.DataFrame(self.ask("recommendations")["results"])

    @abstractmethod
    def aggregations(self) -> pd.DataFrame:
        """Return all aggregations of the profile."""

    def figure_data(self, name: str, theme: str = "light") -> dict[str, Any]:
        """Return a figure as plain data: ``{"data": [...], "layout": {...}}``."""
        return self.ask(f"figures/{name}", theme=theme)

    def figure(self, name: str, theme: str = "light") -> Figure:
        """Return a figure of the viewer, for Plotly.

        Args:
            name: ``iteration-summary``, ``resource-usage``, ``gpu-utilization``,
                ``kernel-gpu-time``, ``tensor-core-efficiency``, ``gpus``, ``ranks`` or
                ``roofline``.
            theme: ``light`` or ``dark``.
        """
        # The import takes half a second; tables do not need it.
        import plotly.graph_objects as go  # noqa: PLC0415

        return go.Figure(self.figure_data(name, theme))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} aggregation={self.aggregation} domain={self.domain!r}>"

    def _repr_html_(self) -> str:
        advice = self.table("advice", status__in="found").head(_MOST_ADVICE)
        return run_html(
            f"Aggregation {self.aggregation}, {self.domain}",
            str(self.verdict()["sentence"]),
            self.summary("performance-summary"),
            self.summary("resource-usage"),
            advice.to_dict("records"),
        )
