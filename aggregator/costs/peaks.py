"""Dense peak rates and memory bandwidth of GPUs by product name.

From NVIDIA's data sheets and architecture white papers (listed in benchmarks/FLOPS.md): boost
clock, dense (never with structured sparsity), Tensor Core rates with 32-bit accumulation, which is
what PyTorch uses (on consumer GPUs half of the advertised rate). A rate that is not published is
None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from aggregator.errors import UsageError
from aggregator.texts import say


@dataclass(frozen=True)
class Peaks:
    """Peak rates of one GPU; None: unknown or not supported."""

    name: str = ""  # Product name or computation that the rates are from.
    float64: float | None = None  # Vector units. Unit: TFLOP/s.
    float64_tensor: float | None = None  # Tensor Cores. Unit: TFLOP/s.
    float32: float | None = None  # Vector units. Unit: TFLOP/s.
    tf32: float | None = None  # Tensor Cores. Unit: TFLOP/s.
    float16_vector: float | None = None  # Vector units. Unit: TFLOP/s.
    float16: float | None = None  # Tensor Cores. Unit: TFLOP/s.
    bfloat16: float | None = None  # Tensor Cores. Unit: TFLOP/s.
    float8: float | None = None  # Tensor Cores. Unit: TFLOP/s.
    int8: float | None = None  # Tensor Cores. Unit: TOP/s.
    float6: float | None = None  # Tensor Cores, blocks with scales (MXFP6). Unit: TFLOP/s.
    float4: float | None = None  # Tensor Cores, blocks with scales (MXFP4, NVFP4). Unit: TFLOP/s.
    bandwidth: float | None = None  # Device memory. Unit: GB/s.
    link: float | None = None  # Bus to the host, one way. Unit: GB/s.

    def rate(self, precision: str) -> float | None:
        """Peak of a precision. Unit: TFLOP/s."""
        value = getattr(self, precision, None) if precision in RATES else None
        return value if isinstance(value, int | float) else None


_PCIE3, _PCIE4, _PCIE5, _C2C = 15.75, 31.5, 63.0, 450.0
_NAMES = tuple(field.name for field in fields(Peaks))[1:]
RATES = _NAMES[:-2]
"""Peak rates by precision."""
_IN_TABLE = tuple(name for name in _NAMES if name not in ("float6", "float4"))

# Pattern of the product name; fp64, fp64 TC, fp32, tf32, fp16 vector, fp16 TC, bf16 TC, fp8, int8,
# memory GB/s, bus GB/s. The first match is used, so more specific names come first. Six bits run at
# the rate of eight from Blackwell on; ``_FOUR_BITS`` has that of four.
_Row = tuple[str, tuple[float | None, ...]]
_TABLE: tuple[_Row, ...] = (
    (r"GB300", (1.39, 1.39, 80, 1250, None, 2500, 2500, 5000, 165, 8000, _C2C)),
    (r"GB200", (40, 40, 80, 1250, None, 2500, 2500, 5000, 5000, 8000, _C2C)),
    (r"B300", (1.25, 1.25, 75, 1125, None, 2250, 2250, 4500, 150, 7700, _PCIE5)),
    (r"B200", (37, 37, 75, 1125, None, 2250, 2250, 4500, 4500, 7700, _PCIE5)),
    (r"B100", (30, 30, 60, 875, None, 1750, 1750, 3500, 3500, 7700, _PCIE5)),
    (r"GH200.*144", (33.5, 66.9, 66.9, 494.7, 133.8, 989.4, 989.4, 1978.9, 1978.9, 4900, _C2C)),
    (r"GH200", (33.5, 66.9, 66.9, 494.7, 133.8, 989.4, 989.4, 1978.9, 1978.9, 4000, _C2C)),
    (r"H200 NVL", (30, 60, 60, 417.5, 120, 835.5, 835.5, 1670.5, 1670.5, 4800, _PCIE5)),
    (r"H200", (33.5, 66.9, 66.9, 494.7, 133.8, 989.4, 989.4, 1978.9, 1978.9, 4800, _PCIE5)),
    (r"H100 NVL", (30, 60, 60, 417.5, 120, 835.5, 835.5, 1670.5, 1670.5, 3938, _PCIE5)),
    (r"H100 PCIe", (25.6, 51.2, 51.2, 378, 102.4, 756, 756, 1513, 1513, 2039, _PCIE5)),
    (r"H100", (33.5, 66.9, 66.9, 494.7, 133.8, 989.4, 989.4, 1978.9, 1978.9, 3352, _PCIE5)),
    (r"H800 PCIe", (0.8, 0.8, 51.2, 378, 102.4, 756, 756, 1513, 1513, 2039, _PCIE5)),
    (r"H800", (1, 1, 66.9, 494.7, 133.8, 989.4, 989.4, 1978.9, 1978.9, 3352, _PCIE5)),
    (r"H20\b", (1, 1, 44, 74, 88, 148, 148, 296, 296, 4000, _PCIE5)),
    (r"L40S", (1.4, None, 91.6, 183, 91.6, 362, 362, 733, 733, 864, _PCIE4)),
    (r"L40\b", (1.4, None, 90.5, 90.5, 90.5, 181, 181, 362, 362, 864, _PCIE4)),
    (r"L4\b", (0.5, None, 30.3, 60, 30.3, 121, 121, 242.5, 242.5, 300, _PCIE4)),
    (r"RTX PRO 6000", (1.95, None, 125, 251.9, 125, 503.8, 503.8, 1007.6, 1007.6, 1792, _PCIE5)),
    (r"RTX 6000 Ada", (1.42, None, 91.1, 182.1, 91.1, 364.2, 364.2, 728.5, 728.5, 960, _PCIE4)),
    (r"A100.*PCI.*40GB", (9.7, 19.5, 19.5, 156, 78, 312, 312, None, 624, 1555, _PCIE4)),
    (r"A100.*PCI|A800.*PCI", (9.7, 19.5, 19.5, 156, 78, 312, 312, None, 624, 1935, _PCIE4)),
    (r"A100.*80GB|A800", (9.7, 19.5, 19.5, 156, 78, 312, 312, None, 624, 2039, _PCIE4)),
    (r"A100", (9.7, 19.5, 19.5, 156, 78, 312, 312, None, 624, 1555, _PCIE4)),
    (r"A30\b", (5.2, 10.3, 10.3, 82, 41.2, 165, 165, None, 330, 933, _PCIE4)),
    (r"A40\b", (0.58, None, 37.4, 74.8, 37.4, 149.7, 149.7, None, 299.3, 696, _PCIE4)),
    (r"A10G", (0.49, None, 31.5, 35, 31.5, 70, 70, None, 140, 600, _PCIE4)),
    (r"A10\b", (0.49, None, 31.2, 62.5, 31.2, 125, 125, None, 250, 600, _PCIE4)),
    (r"A2\b", (0.07, None, 4.5, 9, 4.5, 18, 18, None, 36, 200, 15.75)),
    (r"RTX A6000", (0.6, None, 38.7, 77.4, 38.7, 154.8, 154.8, None, 309.7, 768, _PCIE4)),
    (r"RTX A5000", (0.43, None, 27.8, 55.6, 27.8, 111.1, 111.1, None, 222.2, 768, _PCIE4)),
    (r"RTX A4000", (0.3, None, 19.2, 38.3, 19.2, 76.7, 76.7, None, 153.4, 448, _PCIE4)),
    (r"RTX 5090", (1.64, None, 104.8, 104.8, 104.8, 209.5, 209.5, 419, 838, 1792, _PCIE5)),
    (r"RTX 5080", (0.88, None, 56.3, 56.3, 56.3, 112.6, 112.6, 225.1, 450.2, 960, _PCIE5)),
    (r"RTX 5070 Ti", (0.69, None, 43.9, 43.9, 43.9, 87.9, 87.9, 175.8, 351.5, 896, _PCIE5)),
    (r"RTX 5070", (0.48, None, 30.9, 30.9, 30.9, 61.7, 61.7, 123.5, 246.9, 672, _PCIE5)),
    (r"RTX 4090", (1.29, None, 82.6, 82.6, 82.6, 165.2, 165.2, 330.3, 660.6, 1008, _PCIE4)),
    (r"RTX 4080 SUPER", (0.82, None, 52.2, 52.2, 52.2, 104.4, 104.4, 208.9, 417.8, 736, _PCIE4)),
    (r"RTX 4080", (0.76, None, 48.7, 48.7, 48.7, 97.5, 97.5, 194.9, 389.9, 717, _PCIE4)),
    (r"RTX 4070 Ti SUPER", (0.69, None, 44.1, 44.1, 44.1, 88.2, 88.2, 176.4, 352.8, 672, _PCIE4)),
    (r"RTX 4070 Ti", (0.63, None, 40.1, 40.1, 40.1, 80.2, 80.2, 160.4, 320.7, 504, _PCIE4)),
    (r"RTX 4070 SUPER", (0.55, None, 35.5, 35.5, 35.5, 71, 71, 141.9, 283.9, 504, _PCIE4)),
    (r"RTX 4070", (0.46, None, 29.1, 29.1, 29.1, 58.3, 58.3, 116.6, 233.2, 504, _PCIE4)),
    (r"RTX 3090 Ti", (0.63, None, 40, 40, 40, 80, 80, None, 320, 1008, _PCIE4)),
    (r"RTX 3090", (0.56, None, 35.6, 35.6, 35.6, 71, 71, None, 284, 936, _PCIE4)),
    (r"RTX 3080 Ti", (0.53, None, 34.1, 34.1, 34.1, 68.2, 68.2, None, 272.8, 912, _PCIE4)),
    (r"RTX 3080", (0.47, None, 29.8, 29.8, 29.8, 59.5, 59.5, None, 238, 760, _PCIE4)),
    (r"RTX 3070 Ti", (0.34, None, 21.7, 21.7, 21.7, 43.5, 43.5, None, 174, 608, _PCIE4)),
    (r"RTX 3070", (0.32, None, 20.3, 20.3, 20.3, 40.6, 40.6, None, 162.6, 448, _PCIE4)),
    (r"RTX 3060 Ti", (0.25, None, 16.2, 16.2, 16.2, 32.4, 32.4, None, 129.6, 448, _PCIE4)),
    (r"RTX 3060", (0.2, None, 12.7, 12.7, 12.7, 25.5, 25.5, None, 102, 360, _PCIE4)),
    (r"RTX 2080 Ti", (0.42, None, 13.4, None, 26.9, 53.8, None, None, 215.2, 616, _PCIE3)),
    (r"RTX 2080 SUPER", (0.35, None, 11.2, None, 22.3, 44.6, None, None, 178.4, 496, _PCIE3)),
    (r"RTX 2080", (0.31, None, 10, None, 20.1, 40.3, None, None, 161.1, 448, _PCIE3)),
    (r"RTX 2070 SUPER", (0.28, None, 9.1, None, 18.1, 36.3, None, None, 145, 448, _PCIE3)),
    (r"RTX 2070", (0.23, None, 7.5, None, 14.9, 29.9, None, None, 119.4, 448, _PCIE3)),
    (r"TITAN RTX", (0.51, None, 16.3, None, 32.6, 130.5, None, None, 261, 672, _PCIE3)),
    (r"T4\b", (0.25, None, 8.1, None, 16.2, 65, None, None, 130, 320, _PCIE3)),
    (r"V100S", (8.2, None, 16.4, None, 32.8, 130, None, None, None, 1134, _PCIE3)),
    (r"V100.*PCI", (7, None, 14, None, 28, 112, None, None, None, 900, _PCIE3)),
    (r"V100", (7.8, None, 15.7, None, 31.4, 125, None, None, None, 900, _PCIE3)),
    (r"TITAN V", (7.4, None, 14.9, None, 29.8, 119, None, None, None, 653, _PCIE3)),
    (r"P100.*PCI.*12GB", (4.7, None, 9.3, None, 18.7, None, None, None, None, 549, _PCIE3)),
    (r"P100.*PCI", (4.7, None, 9.3, None, 18.7, None, None, None, None, 732, _PCIE3)),
    (r"P100", (5.3, None, 10.6, None, 21.2, None, None, None, None, 732, _PCIE3)),
    (r"P40\b", (0.37, None, 11.8, None, None, None, None, None, None, 346, _PCIE3)),
    (r"P4\b", (0.17, None, 5.5, None, None, None, None, None, None, 192, _PCIE3)),
)

# From the data sheets of HGX B200 and B300, GB200 NVL72, GB300 NVL72 and RTX PRO, and the white
# paper of the RTX Blackwell architecture.
_FOUR_BITS = {
    "GB300": 15000,
    "GB200": 10000,
    "B300": 13500,
    "B200": 9000,
    "B100": 7000,
    "RTX PRO 6000": 2015.2,
    "RTX 5090": 1676,
    "RTX 5080": 900.4,
    "RTX 5070 Ti": 703,
    "RTX 5070": 494,
}
_OTHER_CHIP = re.compile(r"Laptop|Mobile|Max-Q|MIG |\b[45]090 D\b|PRO 6000.*Server")
"""Names that contain the name of another, larger or faster GPU."""
_HALVED = re.compile(r"GeForce")
"""Cards whose Tensor Cores accumulate in 32 bits at half their rate."""
# Operations per clock of a multiprocessor by compute capability, a fused multiply-add counted as
# two, from the architecture white papers; the rates in the order of RATES.
_PER_CLOCK: dict[tuple[int, int], tuple[int | None, ...]] = {
    (6, 0): (64, None, 128, None, 256, None, None, None, None, None, None),
    (6, 1): (8, None, 256, None, None, None, None, None, None, None, None),
    (7, 0): (64, None, 128, None, 256, 1024, None, None, None, None, None),
    (7, 5): (4, None, 128, None, 256, 1024, None, None, 2048, None, None),
    (8, 0): (64, 128, 128, 1024, 512, 2048, 2048, None, 4096, None, None),
    (8, 6): (4, None, 256, 512, 256, 1024, 1024, None, 2048, None, None),
    (8, 9): (4, None, 256, 512, 256, 1024, 1024, 2048, 2048, None, None),
    (9, 0): (128, 256, 256, 2048, 512, 4096, 4096, 8192, 8192, None, None),
    (10, 0): (128, 128, 256, 4096, 512, 8192, 8192, 16384, 16384, 16384, 32768),
    (12, 0): (4, None, 256, 512, 256, 1024, 1024, 2048, 2048, 2048, 4096),
}
_CLOCKS = (3e8, 4e9)
"""Range of plausible clocks. Unit: Hz."""


@dataclass(frozen=True)
class Chip:
    """Properties of a GPU in a profile besides its name."""

    capability: tuple[int, int] | None = None  # Compute capability; None: unknown.
    sm_count: int | None = None  # Multiprocessors; None: unknown.
    clock_hz: int | None = None  # Their highest clock. Unit: Hz. None: unknown.
    bandwidth: int | None = None  # Memory bandwidth. Unit: bytes/s. None: unknown.


def peaks_of(gpu_name: str, override: str = "", chip: Chip | None = None) -> Peaks:
    """Peaks of a GPU by its product name; peaks set by the user replace them.

    Args:
        gpu_name: Product name as reported by CUDA.
        override: ``float16=312,bandwidth=2039``; empty: none.
        chip: Used to compute the peaks of a GPU that is not in the table.

    Raises:
        UsageError: The override is malformed.
    """
    found = Peaks()
    if not _OTHER_CHIP.search(gpu_name):
        for pattern, values in _TABLE:
            if re.search(rf"(?<![A-Za-z0-9]){pattern}", gpu_name):
                found = Peaks(gpu_name, **dict(zip(_IN_TABLE, values, strict=True)))
                if four := _FOUR_BITS.get(pattern):
                    found = replace(found, float6=found.float8, float4=four)
                break
    if not found.name and chip is not None:
        found = _computed(gpu_name, chip)
    chosen = parse_peaks(override)
    return replace(found, name=found.name or gpu_name, **chosen) if chosen else found


def _computed(gpu_name: str, chip: Chip) -> Peaks:
    """Multiprocessors times clock times operations per clock; Peaks(): a value is unknown."""
    per_clock = _PER_CLOCK.get(chip.capability) if chip.capability else None
    clock = chip.clock_hz or 0
    if per_clock is None or not chip.sm_count or not _CLOCKS[0] < clock < _CLOCKS[1]:
        return Peaks()
    scale = chip.sm_count * clock / 1e12
    rates = {
        name: None if count is None else round(count * scale, 2)
        for name, count in zip(RATES, per_clock, strict=True)
    }
    if _HALVED.search(gpu_name):
        for name in ("tf32", "float16", "bfloat16", "float8", "float6"):
            rate = rates[name]
            rates[name] = None if rate is None else round(rate / 2, 2)
    bandwidth = round(chip.bandwidth / 1e9, 1) if chip.bandwidth else None
    source = f"{gpu_name}: {chip.sm_count} SM x {clock / 1e6:.0f} MHz"
    return Peaks(source, **rates, bandwidth=bandwidth)


def parse_peaks(text: str) -> dict[str, float]:
    """Parse peaks set by the user.

    Raises:
        UsageError: An unknown name, or a value that is not a number above 0.
    """
    values: dict[str, float] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = word.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if name.strip() not in _NAMES or not 0 < number < float("inf"):
            raise UsageError(
                say("The GPU peak '{word}' is not understood.", word=word),
                hint=say(
                    "Give {example}; names: {names}; TFLOP/s, bandwidth and link in GB/s.",
                    example="float16=989.4,bandwidth=4800",
                    names=", ".join(_NAMES),
                ),
            )
        values[name.strip()] = number
    return values
