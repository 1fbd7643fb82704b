"""GPU memory and utilization of a run: from NVML into the export, and then into the database."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from profiler_cli.capture import gpu_samples as capture_gpu
from profiler_cli.capture.gpu_samples import GpuMonitor, Nvml, NvmlError, Reading
from tests.builders import query
from tests.cli.test_capture import Bench, bench  # noqa: F401 - a fixture

GIB = 1 << 30
# Stands in for the driver's library: two GPUs, the first of which fills up by 1 GiB a reading. Once
# it is full there is a file.
NVML = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned long long used = 2ULL << 30;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Unknown"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetUUID(void *h, char *text, unsigned size) {
    strncpy(text, h == (void *)1 ? "GPU-aaaa" : "GPU-bbbb", size);
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *m) {
    if (h == (void *)1 && used < (6ULL << 30)) used += 1ULL << 30;
    if (used == (6ULL << 30) && getenv("FAKE_FULL")) fclose(fopen(getenv("FAKE_FULL"), "w"));
    m[0] = 80ULL << 30; m[2] = h == (void *)1 ? used : 1ULL << 30; m[1] = m[0] - m[2];
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *h, unsigned *r) {
    if (h != (void *)1) return 3;
    r[0] = 50; r[1] = 1;
    return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *reasons) {
    if (h != (void *)1) return 3;
    *reasons = 0x80 | 0x4;
    return 0;
}
"""


@pytest.fixture
def library(tmp_path: Path) -> Callable[[str], Path]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")

    def build(text: str) -> Path:
        folder = tmp_path / "nvml"
        folder.mkdir()
        source, target = folder / "nvml.c", folder / "libnvidia-ml.so.1"
        source.write_text(text)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", target, source], check=True)
        return target

    return build


def test_nvml_is_read_as_its_header_says(library: Callable[[str], Path]) -> None:
    nvml = Nvml(str(library(NVML)))
    assert nvml.read() == [
        Reading(0, "GPU-aaaa", 80 * GIB, 3 * GIB, 50, 1),
        Reading(1, "GPU-bbbb", 80 * GIB, 1 * GIB, None),
    ]
    nvml.close()


@pytest.mark.parametrize(
    ("text", "slowed"),
    [("= 0x80 | 0x4", 1), ("= 0x4 | 0x1", 0), ("= 0x20", 1), ("= 0x40", 1), ("= 0x8", 1)],
)
def test_a_gpu_below_its_power_limit_or_idle_is_not_slowed(
    library: Callable[[str], Path], text: str, slowed: int
) -> None:
    """An older driver has the function under an older name."""
    old = NVML.replace("= 0x80 | 0x4", text).replace("ClocksEvent", "ClocksThrottle")
    assert [reading.slowed for reading in Nvml(str(library(old))).read()] == [slowed, None]


def test_a_driver_without_the_reasons_knows_no_speed(library: Callable[[str], Path]) -> None:
    nvml = Nvml(str(library(NVML.replace("CurrentClocksEventReasons", "Nothing"))))
    assert [reading.slowed for reading in nvml.read()] == [None, None]


def test_a_driver_that_is_not_loaded_is_reported(library: Callable[[str], Path]) -> None:
    text = NVML.replace(
        "int nvmlInit_v2(void) { return 0; }", "int nvmlInit_v2(void) { return 9; }"
    )
    with pytest.raises(NvmlError, match="Driver Not Loaded"):
        Nvml(str(library(text)))


def test_a_library_without_the_functions_is_reported(library: Callable[[str], Path]) -> None:
    with pytest.raises(NvmlError, match="too old"):
        Nvml(str(library("int nothing;")))


@pytest.fixture
def export(profile: Callable[[str], Path]) -> Path:
    """What nsys recorded: of a GPU with a UUID, which the stand-ins do not have."""
    return profile("simple_no_nvtx")


def test_a_run_records_the_peak_in_export_and_database(
    bench: Bench,  # noqa: F811
    library: Callable[[str], Path],
) -> None:
    bench.environment["LD_LIBRARY_PATH"] = str(library(NVML).parent)
    full = bench.folder / "full"
    bench.environment["FAKE_FULL"] = str(full)
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(full)!r}).exists(): time.sleep(0.05)"
    done = bench.run("python", "-c", wait)
    assert done.returncode == 0, done.stderr
    recorded = bench.folder / "nsys_profile.sqlite"
    samples = (
        "SELECT gpu, max(memoryUsed), sum(isBefore), min(isSlowed) FROM DLPROF_GPU_SAMPLES"
        " GROUP BY gpu"
    )
    assert query(recorded, samples) == [(0, 6 * GIB, 1, 1), (1, GIB, 1, None)]
    # The export's GPU has another UUID than the stand-ins: its memory stays unknown.
    sql = "SELECT used, reason FROM view_gpu_memories"
    ((used, reason),) = query(bench.folder / "dlprof_dldb.sqlite", sql)
    assert used is None
    assert reason
    with closing(sqlite3.connect(recorded)) as connection:
        connection.execute("UPDATE TARGET_INFO_GPU SET uuid = 'aaaa'")
        connection.commit()
    assert bench.run("--database=nsys_profile.sqlite", "--output_path=again").returncode == 0
    sql = "SELECT used, used_before, nvml_utilization, source FROM view_gpu_memories"
    again = query(bench.folder / "again" / "dlprof_dldb.sqlite", sql)
    assert again == [(6 * GIB, 3 * GIB, 50.0, "nvml")]


def test_without_nvml_the_run_goes_on_and_the_reason_is_kept(bench: Bench) -> None:  # noqa: F811
    # A library of that name that is none.
    folder = bench.folder / "broken"
    folder.mkdir()
    (folder / "libnvidia-ml.so.1").write_text("no library")
    bench.environment["LD_LIBRARY_PATH"] = str(folder)
    done = bench.run("python", "-c", "pass")
    assert done.returncode == 0, done.stderr
    sql = "SELECT total, used, reason FROM view_gpu_memories"
    ((total, used, reason),) = query(bench.folder / "dlprof_dldb.sqlite", sql)
    assert total > 0
    assert used is None
    assert "libnvidia-ml.so.1" in reason


class Ramp:
    """A GPU whose memory fills by a byte a reading."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self) -> list[Reading]:
        self.reads += 1
        return [Reading(0, "GPU-aaaa", 1 << 20, self.reads, self.reads % 2 * 100)]

    def close(self) -> None:
        self.reads = -1


def test_a_long_run_keeps_few_rows_with_the_true_peak_and_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture_gpu, "MAX_ROWS", 16)
    series = capture_gpu._Series()
    for number in range(1000):
        series.add(
            [number, 0, "GPU-aaaa", 1 << 20, number, number % 2 * 100, 0, int(number == 500)]
        )
    rows = series.all_rows()
    assert sum(row[7] for row in rows) == 1
    assert len(rows) <= 17
    assert max(row[4] for row in rows) == 999
    assert sum(row[5] for row in rows) / len(rows) == pytest.approx(50)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


def test_the_reader_is_closed_when_the_run_ends() -> None:
    reader = Ramp()
    with GpuMonitor(reader, interval_s=0.001) as monitor:
        monitor.started()
        while reader.reads < 5:
            pass
    assert reader.reads == -1
    rows = monitor.rows()
    assert [row[6] for row in rows[:2]] == [1, 0]
    assert len(rows) >= 5
