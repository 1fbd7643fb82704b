"""The command prints a result at its end, the steady steps first."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path

import pytest

from profiler_cli.commands.analyze import format_losses
from profiler_cli.dlprof import main
from tests.builders import Trace
from tests.cli.scratch import add_view, scratch_source
from tests.conftest import ProfileFactory


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Twelve steps of 1 ms after one of 30 ms."""
    trace = Trace()
    trace.gpu(0)
    thread = trace.thread(100)
    at = 0
    for step in range(13):
        length = 1_000_000 if step else 30_000_000
        thread.range(f"iteration {step}", at, at + length)
        thread.op("conv2d", at + 100, at + 800, seq=2 * step, sizes="[[8, 3, 4, 4]]")
        thread.launch("sgemm", at + 110, gpu=(at + 200, at + length // 2))
        at += length
    return trace.write(tmp_path / "uneven.sqlite")


def test_the_result_leads_with_the_steady_steps_and_names_what_was_left_out(
    uneven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--database={uneven}", f"--output_path={tmp_path / 'out'}", "-v=minimal"]
    assert main([*words, "--reports=summary,advice"]) == 0
    first, note, scope, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("Step: median 1.00 ms, 10th to 90th percentile 1.00 to 1.00 ms (")
    assert "left out: warm-up (iteration" in note
    assert first.endswith("steady steps), as profiled")
    steady = re.search(r"terations \d+ to \d+", note)
    assert steady is not None
    assert scope == (
        f"All that follows is about i{steady[0]}; DLProf's report files cover all 14 iterations."
    )
    # DLProf's own reports show all iterations, as ever.
    summary = (tmp_path / "out" / "dlprof_summary.csv").read_text().splitlines()
    assert "Aggregated Iterations,13" in summary or "Aggregated Iterations,14" in summary


def test_the_result_leads_with_the_range_that_was_asked_for(
    uneven: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--database={uneven}", f"--output_path={tmp_path / 'out'}", "-v=minimal"]
    assert main([*words, "--iter_start=3", "--iter_stop=6"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith("(4 steps, iterations 3 to 6), as profiled")


def test_in_simple_mode_the_totals_are_said_to_be_of_the_steady_steps(
    tmp_path: Path, profile: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--database={profile('simple_no_nvtx')}", f"--output_path={tmp_path}", "-v=minimal"]
    assert main(words) == 0
    _, note, scope, *_ = capsys.readouterr().out.splitlines()
    assert note.startswith("Iterations 1 to 5 are steady; left out: start-up (iteration 0)")
    assert scope.startswith("All that follows is about iterations 1 to 5;")


def test_the_time_of_graphs_recorded_as_a_whole_is_counted(
    tmp_path: Path, profile: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--database={profile('zx3')}", f"--output_path={tmp_path}", "-v=minimal"]
    assert main(words) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "Total GPU Time: 7.81 s" in lines
    assert "TC GPU Time: unknown" in lines
    assert "In CUDA graphs: 7.81 s, whose kernels were not recorded" in lines


def test_short_times_are_not_rounded_to_none(
    tmp_path: Path, profile: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    source = profile("triton_example__triton_example.json.gz")
    words = [f"--database={source}", f"--output_path={tmp_path}", "-v=minimal", "--mode=simple"]
    assert main(words) == 0
    wall, gpu, cores = capsys.readouterr().out.splitlines()[:3]
    assert float(wall.split()[-2]) > float(gpu.split()[-2]) > 0
    assert cores.split()[-2] == "0.00"


def test_lost_records_are_the_first_thing_that_is_printed(
    tmp_path: Path, profile: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--database={profile('crash_assert')}", f"--output_path={tmp_path}", "-v=minimal"]
    assert main(words) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("The capture is incomplete (407): CUDA events were dropped")


@pytest.mark.parametrize("version", ["2.1.3", "2.1.8"])
def test_a_database_of_an_earlier_patch_gets_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    """Its views lack what was not known then."""
    older = Path(__file__).parents[1] / "data" / "older" / f"dldb_{version}.sqlite.xz"
    source = tmp_path / "older.sqlite"
    source.write_bytes(lzma.decompress(older.read_bytes()))
    words = [f"--database={source}", f"--output_path={tmp_path}", "-v=minimal", "--iter_start=1"]
    assert main([*words, "--reports=summary", "--extended=true"]) == 0
    assert capsys.readouterr().out.startswith(("Step: median", "Step without profiling"))


def test_a_part_of_a_run_is_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace()
    list(trace.steps(8))
    trace.add("DLPROF_WINDOW", pid=100, start_ns=0, end_ns=80_000, ended_by="detach")
    trace.add("DLPROF_CAPTURE_NOTES", name="runNs", value="3600000000000")
    source = trace.write(tmp_path / "part.sqlite")
    words = [f"--database={source}", f"--output_path={tmp_path}", "-v=minimal"]
    assert main([*words, "--reports=summary", "--extended=true"]) == 0
    said = "Recorded 0.0 s of 3600.0 s (one window): the rest of the run is not in the profile."
    assert capsys.readouterr().out.splitlines()[0] == said
    summary = (tmp_path / "dlprof_summary.csv").read_text()
    assert "Recorded Windows,1\nRecorded Time (ns),80000\nRun Time (ns),3600000000000\n" in summary
    main(["advise", str(tmp_path / "dlprof_dldb.sqlite"), "--json", "--fail_on=never"])
    recorded = json.loads(capsys.readouterr().out)["recorded"]
    assert (recorded["recorded_time_ns"], recorded["run_steps"]) == (80_000, None)


def test_only_warnings_of_lost_records_lead_the_result() -> None:
    source = scratch_source()
    rows = [
        ("LOST_EVENTS", "Events are missing.", 1234),
        ("CUT_RANGES", "Ranges were cut.", 2),
        ("INCOMPLETE_EVENTS", "A process ended early.", 1),
    ]
    add_view(source, "view_warnings", ("code", "message", "count"), rows)
    assert format_losses(source).splitlines() == [
        "The capture is incomplete (1,234): Events are missing.",
        "The capture may be incomplete (1): A process ended early.",
        "",
    ]
