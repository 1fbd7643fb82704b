"""The table of peak rates beside what follows from multiprocessors, clocks and architecture."""

from __future__ import annotations

import pytest

from aggregator.costs.peaks import RATES, Chip, Peaks, peaks_of
from aggregator.errors import UsageError
from tests.builders import table

CARDS = table("gpu_cards")
HOPPER = {
    # Multiprocessors, clock of vector units and of Tensor Cores in MHz: the sheets use both
    "NVIDIA H100 80GB HBM3": (132, 1980, 1830, 3352),
    "NVIDIA H200": (132, 1980, 1830, 4800),
    "NVIDIA H100 PCIe": (114, 1755, 1620, 2039),
    "NVIDIA GH200 480GB": (132, 1980, 1830, 4000),
}
BLACKWELL = {
    # The same of B200 by data sheets and spec tables: 148 multiprocessors
    "NVIDIA B100": (148, 1600, 1440, 7700),
    "NVIDIA B200": (148, 1980, 1860, 7700),
    "NVIDIA GB200": (148, 2112, 2062, 8000),
}


@pytest.mark.parametrize(("name", "capability", "sm_count", "clock", "bandwidth"), CARDS)
def test_the_table_has_what_the_architecture_gives(
    name: str, capability: list[int], sm_count: int, clock: int, bandwidth: float
) -> None:
    found = peaks_of(name)
    assert found.name == name
    # The same chip without its product's name: worked out
    family = "GeForce of tomorrow" if "GeForce" in name else "GPU of tomorrow"
    chip = Chip((capability[0], capability[1]), sm_count, clock * 10**6, round(bandwidth * 1e9))
    expected = peaks_of(family, chip=chip)
    for rate in RATES:
        ours, theirs = getattr(found, rate), getattr(expected, rate)
        if ours is not None and theirs is not None and rate != "float64":
            assert ours == pytest.approx(theirs, rel=0.02), rate
    assert found.float32 is not None
    assert expected.float32 is not None
    assert found.bandwidth == pytest.approx(bandwidth, rel=0.005)


HOPPER_PER_CLOCK = {
    # Of one multiprocessor: floating point operations, and whose clock
    "float64": (128, "vector"),
    "float32": (256, "vector"),
    "float16_vector": (512, "vector"),
    "tf32": (2048, "tensor"),
    "float16": (4096, "tensor"),
    "bfloat16": (4096, "tensor"),
    "float8": (8192, "tensor"),
    "int8": (8192, "tensor"),
}
BLACKWELL_PER_CLOCK = {
    "float64": (128, "vector"),
    "float32": (256, "vector"),
    "tf32": (4096, "tensor"),
    "float16": (8192, "tensor"),
    "bfloat16": (8192, "tensor"),
    "float8": (16384, "tensor"),
    "int8": (16384, "tensor"),
}
TWO_CLOCKS = [
    *((name, *figures, HOPPER_PER_CLOCK) for name, figures in HOPPER.items()),
    *((name, *figures, BLACKWELL_PER_CLOCK) for name, figures in BLACKWELL.items()),
]


@pytest.mark.parametrize(("name", "sm_count", "vector", "tensor", "bandwidth", "rates"), TWO_CLOCKS)
def test_peaks_follow_the_clock_of_the_chip(
    name: str,
    sm_count: int,
    vector: int,
    tensor: int,
    bandwidth: int,
    rates: dict[str, tuple[int, str]],
) -> None:
    found = peaks_of(name)
    clocks = {"vector": vector, "tensor": tensor}
    for rate, (per_clock, unit) in rates.items():
        expected = sm_count * per_clock * clocks[unit] / 1e6
        assert getattr(found, rate) == pytest.approx(expected, rel=0.015), rate
    assert found.bandwidth == bandwidth


def test_peaks_are_found_by_name_and_can_be_given() -> None:
    assert peaks_of("NVIDIA H100 PCIe").float16 == 756
    assert peaks_of("Tesla P100-PCIE-12GB").bandwidth == 549
    assert peaks_of("Tesla P100-PCIE-16GB").bandwidth == 732
    assert peaks_of("NVIDIA GB200").float16 == 2500
    assert peaks_of("A GPU of tomorrow") == Peaks()
    assert peaks_of("A GPU of tomorrow", "float16=3").float16 == 3
    with pytest.raises(UsageError):
        peaks_of("NVIDIA H200", "float17=3")
    with pytest.raises(UsageError):
        peaks_of("NVIDIA H200", "float16=-1")


def test_a_name_that_holds_that_of_a_larger_gpu_is_not_taken_for_it() -> None:
    laptop = "NVIDIA GeForce RTX 4090 Laptop GPU"
    assert peaks_of(laptop) == Peaks()
    assert peaks_of("NVIDIA A100-SXM4-80GB MIG 1g.10gb") == Peaks()
    assert peaks_of("NVIDIA RTX PRO 6000 Blackwell Server Edition") == Peaks()
    chip = Chip((8, 9), 76, 2_040_000_000, 576_000_000_000)
    found = peaks_of(laptop, "bfloat16=70", chip)
    assert found.float32 == pytest.approx(76 * 256 * 2.04e9 / 1e12, rel=1e-3)
    assert (found.bfloat16, found.bandwidth) == (70, 576)
    assert found.name == f"{laptop}: 76 SM x 2040 MHz"


def test_a_chip_of_which_something_is_unknown_has_no_peaks() -> None:
    assert peaks_of("New", chip=Chip((11, 0), 100, 2 * 10**9, 10**12)) == Peaks()
    assert peaks_of("New", chip=Chip((8, 9), None, 2 * 10**9, 10**12)) == Peaks()
    assert peaks_of("New", chip=Chip((8, 9), 10, 2_040_000, 10**12)) == Peaks()
    assert peaks_of("New", chip=Chip()) == Peaks()
