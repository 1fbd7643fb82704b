"""The data that advice asks for fits the tool that recorded the profile."""

from __future__ import annotations

from pathlib import Path

from tests.builders import analyze_file, one_gpu
from tests.unit import test_sources_kineto as kineto

STEPS, STEP_US = 5, 9_000


def _kineto(path: Path) -> Path:
    """A torch.profiler trace of steps with an idle GPU between them."""
    path.write_text(kineto.trace(kineto.steps(STEPS, STEP_US), baseTimeNanoseconds=10**18))
    return path


def _nsys(path: Path) -> Path:
    """The like of Nsight Systems."""
    trace, thread = one_gpu()
    for step in range(STEPS):
        at = 1_000 * STEP_US * step
        thread.range(f"iteration {step}", at, at + 900_000)
        thread.op("conv2d", at + 100, at + 800)
        thread.launch("sgemm", at + 110, gpu=(at + 1_000, at + 50_000))
    return trace.write(path)


def _needs(source: Path) -> dict[str, str]:
    """Advice -> the data that it asks for."""
    found = analyze_file(source, source.with_name(f"{source.stem}_dldb.sqlite"))
    return dict(found.query("SELECT advice_name, needs FROM view_advice"))


def test_advice_on_a_torch_profiler_trace_names_no_nsys_option(tmp_path: Path) -> None:
    needs = _needs(_kineto(tmp_path / "trace.json"))
    assert "record_function" in needs["host_stalls"]
    assert "record_function" in needs["input_bound"]
    assert [text for text in needs.values() if "nsys" in text or "NVTX" in text] == []


def test_advice_on_an_nsight_systems_export_names_its_options(tmp_path: Path) -> None:
    needs = _needs(_nsys(tmp_path / "export.sqlite"))
    assert "--nsys_opts" in needs["host_stalls"]
    assert "NVTX" in needs["input_bound"]
