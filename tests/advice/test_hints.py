"""What would tell more fits what recorded the profile."""

from __future__ import annotations

from pathlib import Path

from tests.builders import Trace, analyse_file
from tests.unit import test_sources_kineto as kineto

STEPS, STEP_US = 5, 9_000


def _kineto(path: Path) -> Path:
    """Steps whose GPU stands still between them, as torch.profiler tells them."""
    path.write_text(kineto.trace(kineto.steps(STEPS, STEP_US), baseTimeNanoseconds=10**18))
    return path


def _nsys(path: Path) -> Path:
    """The like of Nsight Systems."""
    trace = Trace()
    trace.gpu()
    thread = trace.thread()
    for step in range(STEPS):
        at = 1_000 * STEP_US * step
        thread.range(f"iteration {step}", at, at + 900_000)
        thread.op("conv2d", at + 100, at + 800)
        thread.launch("sgemm", at + 110, gpu=(at + 1_000, at + 50_000))
    return trace.write(path)


def _needs(source: Path) -> dict[str, str]:
    """Advice -> what would tell more."""
    found = analyse_file(source, source.with_name(f"{source.stem}_dldb.sqlite"))
    return dict(found.query("SELECT advice_name, needs FROM view_advice"))


def test_a_trace_of_torch_profiler_is_told_of_no_option_of_nsys(tmp_path: Path) -> None:
    needs = _needs(_kineto(tmp_path / "trace.json"))
    assert "record_function" in needs["host_stalls"]
    assert "record_function" in needs["input_bound"]
    assert [text for text in needs.values() if "nsys" in text or "NVTX" in text] == []


def test_an_export_of_nsight_systems_is_told_of_its_options(tmp_path: Path) -> None:
    needs = _needs(_nsys(tmp_path / "export.sqlite"))
    assert "--nsys_opts" in needs["host_stalls"]
    assert "NVTX" in needs["input_bound"]
