"""Comparisons in a notebook: ``compare("before.sqlite", "after.sqlite").rows``."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from aggregator.compare.document import to_document
from aggregator.compare.figures import FIGURES, draw
from aggregator.compare.result import Comparison
from aggregator.compare.sides import Source, compare_files
from aggregator.dldb.memory_reader import compare_recordings, read_devices
from aggregator.errors import InvalidValueError
from aggregator.system.progress import NullProgress
from dlprof_client.cells import table_html

try:
    import pandas as pd
except ImportError as error:
    raise ImportError(
        "dlprof_client needs pandas and Plotly: pip install 'open-dlprof[notebook]'"
    ) from error

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_TIMES: Final = ("base_ns", "new_ns", "difference_ns")


def compare(
    base: str | Path | Sequence[str | Path], new: str | Path | Sequence[str | Path]
) -> Changes:
    """Compare two runs, or several captures of each.

    Args:
        base: A file or several: anything that ``dlprof compare`` takes, also ``FILE@10-19``.
        new: The new side, likewise.

    Raises:
        DlprofError: A file cannot be read, or holds nothing to compare.
    """
    sides = [
        [base] if isinstance(base, str | Path) else base,
        [new] if isinstance(new, str | Path) else new,
    ]
    sources = [[Source.parse(str(name)) for name in side] for side in sides]
    return Changes(compare_files(sources[0], sources[1], NullProgress(), keep=True))


def compare_memory(base: str | Path, new: str | Path) -> pd.DataFrame:
    """What makes the peak of GPU memory of one recording higher or lower than that of another.

    Rows are modules and ops by kind, the largest difference first. The differences of a device add
    up exactly to that of its peaks; all are bytes.

    Args:
        base: A database, a snapshot of PyTorch, an export or a trace.
        new: The new recording, likewise.

    Raises:
        DlprofError: A file cannot be read, or they record no GPU that both have.
    """
    found = compare_recordings(read_devices(Path(base)), read_devices(Path(new)))
    rows = [{"device": part.device, **structs.asdict(row)} for part in found for row in part.owners]
    columns = ["device", "kind", "owner", "base_bytes", "new_bytes", "difference_bytes"]
    return pd.DataFrame(rows, columns=columns)


class Changes:
    """What changed between two runs; ``comparison`` has all of it, with exact times."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self._document = to_document(comparison)

    @property
    def headline(self) -> str:
        """What changed and what explains it, in one sentence."""
        return str(self.comparison.headline)

    @property
    def rows(self) -> pd.DataFrame:
        """What each op owns of the step on both sides, with verdicts; times in ns."""
        return _frame(self._document["rows"])

    @property
    def classes(self) -> pd.DataFrame:
        """The step by class of time."""
        return _frame(self._document["classes"])

    @property
    def causes(self) -> pd.DataFrame:
        """The step by what the GPU did or waited for."""
        return _frame(self._document["causes"])

    @property
    def setup(self) -> pd.DataFrame:
        """What else differs."""
        return pd.DataFrame(self._document["setup"], columns=["key", "base", "new"])

    def figure(self, name: str = "classes", row: int = 0) -> Figure:
        """A figure: ``classes`` or ``causes`` of the change, or the iterations of one ``row``.

        Raises:
            InvalidValueError: There is no such figure or row.
        """
        if name not in FIGURES or not 0 <= row < len(self.comparison.rows):
            raise InvalidValueError(
                f"There is no figure '{name}' of row {row}.", hint=f"Known: {', '.join(FIGURES)}."
            )
        import plotly.graph_objects as go  # noqa: PLC0415 - takes a second

        return go.Figure(draw(self.comparison, name, row))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

    def _repr_html_(self) -> str:
        times = [
            (
                row["class"],
                f"{row['base_ns'] / 1e6:.3f}",
                f"{row['new_ns'] / 1e6:.3f}",
                f"{row['difference_ns'] / 1e6:+.3f}",
            )
            for row in self.classes.to_dict("records")
            if row["base_ns"] or row["new_ns"]
        ]
        header = ("class", "base ms", "new ms", "difference ms")
        return f"<p><strong>{html.escape(self.headline)}</strong></p>{table_html(header, times)}"


def _frame(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the exact times as floats, which pandas can add."""
    frame = pd.DataFrame(records)
    times = [name for name in _TIMES if name in frame]
    return frame.astype(dict.fromkeys(times, "float64"))
