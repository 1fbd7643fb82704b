"""Input and result of the detectors."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.metrics.model import RollupInput
from aggregator.metrics.op_metrics import OpMetrics
from aggregator.metrics.window import Window
from aggregator.texts import Text


@dataclass(frozen=True)
class Evidence:
    """One aggregation and the data it was computed from."""

    data: RollupInput  # The imported profile.
    window: Window  # The aggregated window.
    ops: OpMetrics  # Metrics of its ops.
    totals: dict[str, int | float]  # Totals by column name of ``model_metrics``.
    requested_key_node: str  # Key node that the user set; empty if none.
    is_from_dlprof: bool = False  # Whether it was converted from a database of NVIDIA's DLProf.
    is_one_rank: bool = False  # Whether the profile is that of one rank of a larger job.
    # Whether CUDA calls were recorded, or memory of a GPU was used, but no work of any GPU.
    lost_gpu_work: bool = False
    is_from_torch_profiler: bool = False  # Whether it is a trace of torch.profiler.
    steady: tuple[int, int] | None = None  # First and last steady iteration; None: there are none.
    graph_ops: frozenset[int] = frozenset()  # Ops that ran graphs whose kernels are unknown.


@dataclass(frozen=True)
class Issue:
    """A problem and a recommendation."""

    detector: str  # Stable name; DLProf's own for its detectors.
    problem: Text  # One sentence.
    recommendation: Text  # One or two sentences.
    drill_down: str = ""  # Name of a view with the details, from a fixed list; empty if none.
