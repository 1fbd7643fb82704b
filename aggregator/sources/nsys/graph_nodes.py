"""Nodes of CUDA graphs in an export that was made with ``--cuda-graph-trace=node``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.profile.profile import GraphNodes
from aggregator.sources.nsys import schema as names

if TYPE_CHECKING:
    from aggregator.profile.arrays import Int64
    from aggregator.sources.repair import RawTable


def read_graph_nodes(raw: dict[str, RawTable], threads: Int64) -> GraphNodes:
    """Return the nodes of CUDA graphs that were traced node by node."""
    table = raw[names.GRAPH_NODES]
    known = np.isin(table["tid"], threads) & (table["node"] >= 0)
    if not known.any():
        return GraphNodes()
    return GraphNodes(
        time_ns=table["start"][known],
        thread=np.searchsorted(threads, table["tid"][known]).astype(np.int32),
        node=table["node"][known].astype(np.int64),
        original=table["original"][known].astype(np.int64),
        of_work=tuple(
            raw[kind]["node"].astype(np.int64) for kind in (names.KERNELS, names.COPIES, names.SETS)
        ),
    )
