"""Readable names of kernels: what each library's names become, and the names of real captures."""

from __future__ import annotations

import csv
import lzma
import re
from collections import defaultdict
from pathlib import Path

import pytest

from aggregator.kernels.names import demangle
from aggregator.kernels.readable import MAX_CHARS
from aggregator.kernels.traits import kernel_traits

DATA = Path(__file__).parents[1] / "data"
NAMES = DATA / "kernel_names" / "readable.tsv"
"""Readable name and full name of a kernel, by line."""


@pytest.mark.parametrize("line", NAMES.read_text("utf-8").splitlines())
def test_kernel_has_its_readable_name(line: str) -> None:
    expected, name = line.split("\t")
    assert kernel_traits(name).readable_name == expected


FAMILIES = {
    "cutlass": r"cutlass\w*::(?:Kernel|device_kernel)",
    "cublas": r"^(?:volta|turing|ampere)_\w*gemm|_cublas$",
    "cudnn": r"_cudnn$|^cudnn_generated|^(?:volta|turing|ampere)_scudnn",
    "nvjet": "^nvjet_",
    "triton": "^triton_(?:poi|red|per)_",
    "nccl": "^nccl",
    "xla": r"^(?:loop|input|wrapped)_|^fusion(?:_\d+)?$",
    "elementwise": "::(?:vectorized_|unrolled_)?elementwise_kernel<",
    "reduce": "at::native::reduce_kernel<",
    "foreach": "multi_tensor_apply_kernel<",
}
"""First word of the readable name: pattern of the full name."""


@pytest.fixture(scope="module")
def real_names() -> set[str]:
    packed = (DATA / "captures/collector/names.nsys.tsv.xz").read_bytes()
    names = {line.split("\t")[1] for line in lzma.decompress(packed).decode().splitlines()}
    for table, column in (("reviewed", "name"), ("counters", "kernel_name")):
        lines = (DATA / f"tensor_cores_{table}.csv").read_text("utf-8").splitlines()
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        names |= {demangle(row[column]) for row in rows}
    return names


def test_every_kernel_of_the_captures_has_one(real_names: set[str]) -> None:
    assert len(real_names) > 500
    for name in real_names:
        readable = kernel_traits(name).readable_name
        assert 0 < len(readable) <= MAX_CHARS, name
        for first, pattern in FAMILIES.items():
            if re.search(pattern, name):
                allowed = {first, "cutlass"} if first == "cudnn" else {first}
                assert readable.split()[0] in allowed, (name, readable)


@pytest.mark.parametrize("family", FAMILIES)
def test_few_kernels_of_a_family_share_a_readable_name(family: str, real_names: set[str]) -> None:
    named = defaultdict(set)
    for name in real_names:
        if re.search(FAMILIES[family], name):
            # Demanglers differ in parameters, and in how they write numbers and truth values.
            plain = re.sub(
                r"\((?:int|bool|unsigned[\w ]*)\)|\s|(?<=\d)ul\b|\(T\d.*|\(int.*", "", name
            )
            plain = plain.replace("true", "1").replace("false", "0").replace("longlong", "long")
            named[kernel_traits(name).readable_name].add(plain)
    count = sum(map(len, named.values()))
    assert len(named) >= 0.6 * count
