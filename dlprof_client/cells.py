"""HTML of the cells of a notebook. Every text of a profile is escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

_SHARES: Final = {
    "tc_pct": "Tensor Cores",
    "non_tc_pct": "other kernels",
    "graph_pct": "CUDA graphs",
    "memory_pct": "copies",
    "dataloader_pct": "data loader",
    "io_pct": "I/O",
    "cpu_pct": "CPU",
    "other_pct": "other",
}


class Page:
    """A page in a frame without an origin of its own: it can reach neither notebook nor network."""

    def __init__(self, text: str, height: int) -> None:
        self.text = text
        self._height = height

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{html.escape(self.text)}"'
            f' style="width: 100%; height: {self._height}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.text) / 1e6:.1f} MB of HTML>"


def run_html(
    title: str,
    sentence: str,
    summary: Mapping[str, Any],
    usage: Mapping[str, Any],
    advice: Sequence[Mapping[Any, Any]],
) -> str:
    """Return what limits the step, where its time goes, and what could save most."""
    shares = [(label, f"{usage[name]:.1f} %") for name, label in _SHARES.items() if usage.get(name)]
    rows = [
        ("Step (median)", _milliseconds(summary.get("iter_median_ns"))),
        ("Steps", _text(summary.get("steps"))),
        ("GPU busy", _percent(summary.get("gpu_utilization_pct"))),
        *shares,
    ]
    found = [(_saving(item), str(item["problem"])) for item in advice]
    heading = f"<p><strong>{html.escape(sentence)}</strong><br>{html.escape(title)}</p>"
    parts = [heading, table_html((), rows)]
    if found:
        parts.append(table_html(("could save", "advice"), found))
    return "".join(parts)


def table_html(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table of texts."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )


def _saving(advice: Mapping[Any, Any]) -> str:
    return _percent(advice["gain_pct"])


def _percent(value: Any) -> str:
    # pandas has NaN for what is not known
    return "unknown" if value is None or value != value else f"{value:.1f} %"  # noqa: PLR0124


def _milliseconds(value: Any) -> str:
    return "unknown" if value is None else f"{value / 1e6:.3f} ms"


def _text(value: Any) -> str:
    return "unknown" if value is None else str(value)
