"""The difference of two peaks adds up exactly."""

from __future__ import annotations

import json
import lzma
from itertools import permutations
from pathlib import Path

import pytest

from aggregator.metrics.memory.analysis import analyze
from aggregator.metrics.memory.difference import compare_peaks
from aggregator.sources.memory import read_memory
from profiler_cli.commands.memory import run_memory
from tests.conftest import ProfileFactory
from tests.memory.pickles import SNAPSHOTS

CAPTURES = Path(__file__).parents[1] / "data/captures/advice"
KEPT_BYTES = 12 * 512 * 5000 * 4
"""The logits of one step: tokens, words, FP32."""


def test_parts_of_public_snapshots_add_up(profile: ProfileFactory) -> None:
    memories = [analyze(read_memory(profile(name))) for name in SNAPSHOTS]
    for base, new in permutations(memories, 2):
        (found,) = compare_peaks(base, new)
        peaks = [one[0].counts.peak_allocated for one in (base, new)]
        assert found.difference_bytes == peaks[1] - peaks[0]
        for parts in (found.kinds, found.owners):
            assert sum(one.difference_bytes for one in parts) == found.difference_bytes
            assert [sum(one.base_bytes for one in parts)] == peaks[:1]


def test_what_a_program_keeps_makes_its_peak_higher(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for name in ("memory_released", "memory_kept"):
        files.append(tmp_path / f"{name}.pickle")
        packed = CAPTURES / f"{name}_memory_1.pickle.xz"
        files[-1].write_bytes(lzma.decompress(packed.read_bytes()))
    words = [str(file) for file in files]
    assert run_memory([*words, "--format=json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["differences"]
    # At the peak of the last step, those of the seven steps before are held.
    assert found["difference_bytes"] == 7 * KEPT_BYTES
    assert found["kinds"][0]["kind"] == "activation"
    assert found["kinds"][0]["difference_bytes"] == 7 * KEPT_BYTES
    assert found["owners"][0]["owner"].startswith("head")
    assert run_memory(words) == 0
    assert "+860.16 MB" in capsys.readouterr().out
