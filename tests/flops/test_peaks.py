"""The table of peak rates beside what follows from multiprocessors, clocks and architecture."""

from __future__ import annotations

import pytest

from aggregator.costs.peaks import RATES, Chip, Peaks, peaks_of
from aggregator.errors import UsageError

CARDS: dict[str, tuple[tuple[int, int], int, int, float]] = {
    # Compute capability, multiprocessors, boost clock in MHz, memory in GB/s: data sheets
    "Tesla P100-SXM2-16GB": ((6, 0), 56, 1480, 732),
    "Tesla V100-SXM2-32GB": ((7, 0), 80, 1530, 900),
    "Tesla V100-PCIE-16GB": ((7, 0), 80, 1380, 900),
    "Tesla V100S-PCIE-32GB": ((7, 0), 80, 1597, 1134),
    "Tesla T4": ((7, 5), 40, 1590, 320),
    "NVIDIA TITAN RTX": ((7, 5), 72, 1770, 672),
    "NVIDIA GeForce RTX 2080 Ti": ((7, 5), 68, 1545, 616),
    "NVIDIA GeForce RTX 2080 SUPER": ((7, 5), 48, 1815, 496),
    "NVIDIA GeForce RTX 2070": ((7, 5), 36, 1620, 448),
    "NVIDIA A100-SXM4-40GB": ((8, 0), 108, 1410, 1555),
    "NVIDIA A100-SXM4-80GB": ((8, 0), 108, 1410, 2039),
    "NVIDIA A100-PCIE-40GB": ((8, 0), 108, 1410, 1555),
    "NVIDIA A100 80GB PCIe": ((8, 0), 108, 1410, 1935),
    "NVIDIA A30": ((8, 0), 56, 1440, 933),
    "NVIDIA A40": ((8, 6), 84, 1740, 696),
    "NVIDIA A10": ((8, 6), 72, 1695, 600),
    "NVIDIA RTX A6000": ((8, 6), 84, 1800, 768),
    "NVIDIA RTX A5000": ((8, 6), 64, 1695, 768),
    "NVIDIA RTX A4000": ((8, 6), 48, 1560, 448),
    "NVIDIA GeForce RTX 3090 Ti": ((8, 6), 84, 1860, 1008),
    "NVIDIA GeForce RTX 3090": ((8, 6), 82, 1695, 936),
    "NVIDIA GeForce RTX 3080 Ti": ((8, 6), 80, 1665, 912),
    "NVIDIA GeForce RTX 3080": ((8, 6), 68, 1710, 760),
    "NVIDIA GeForce RTX 3070 Ti": ((8, 6), 48, 1770, 608),
    "NVIDIA GeForce RTX 3070": ((8, 6), 46, 1725, 448),
    "NVIDIA GeForce RTX 3060 Ti": ((8, 6), 38, 1665, 448),
    "NVIDIA GeForce RTX 3060": ((8, 6), 28, 1777, 360),
    "NVIDIA L4": ((8, 9), 58, 2040, 300),
    "NVIDIA L40S": ((8, 9), 142, 2520, 864),
    "NVIDIA RTX 6000 Ada Generation": ((8, 9), 142, 2505, 960),
    "NVIDIA GeForce RTX 4090": ((8, 9), 128, 2520, 1008),
    "NVIDIA GeForce RTX 4080 SUPER": ((8, 9), 80, 2550, 736),
    "NVIDIA GeForce RTX 4080": ((8, 9), 76, 2505, 717),
    "NVIDIA GeForce RTX 4070 Ti SUPER": ((8, 9), 66, 2610, 672),
    "NVIDIA GeForce RTX 4070 Ti": ((8, 9), 60, 2610, 504),
    "NVIDIA GeForce RTX 4070 SUPER": ((8, 9), 56, 2475, 504),
    "NVIDIA GeForce RTX 4070": ((8, 9), 46, 2475, 504),
    "NVIDIA GeForce RTX 5090": ((12, 0), 170, 2407, 1792),
    "NVIDIA GeForce RTX 5080": ((12, 0), 84, 2617, 960),
    "NVIDIA GeForce RTX 5070 Ti": ((12, 0), 70, 2452, 896),
    "NVIDIA GeForce RTX 5070": ((12, 0), 48, 2512, 672),
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": ((12, 0), 188, 2617, 1792),
}
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


@pytest.mark.parametrize("name", CARDS)
def test_the_table_has_what_the_architecture_gives(name: str) -> None:
    capability, sm_count, clock, bandwidth = CARDS[name]
    found = peaks_of(name)
    assert found.name == name
    # The same chip without its product's name: worked out
    family = "GeForce of tomorrow" if "GeForce" in name else "GPU of tomorrow"
    chip = Chip(capability, sm_count, clock * 10**6, round(bandwidth * 1e9))
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
