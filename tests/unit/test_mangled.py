"""Names of kernels as Nsight Systems writes them: 515 of its exports hold them mangled as well."""

from __future__ import annotations

import lzma
import random
from pathlib import Path

import pytest

from aggregator.kernels import names
from aggregator.kernels.mangled import UnknownMangling, demangle_mangled
from aggregator.kernels.names import demangle, short_name
from tests.builders import table

NAMES = Path(__file__).parents[1] / "data/captures/collector/names.nsys.tsv.xz"


@pytest.fixture(scope="module")
def recorded() -> list[tuple[str, str, str]]:
    """Mangled, demangled and short names."""
    lines = lzma.decompress(NAMES.read_bytes()).decode().splitlines()
    return [(mangled, full, short) for mangled, full, short in (line.split("\t") for line in lines)]


def test_all_names_are_those_of_nsight_systems(recorded: list[tuple[str, str, str]]) -> None:
    assert len(recorded) == 515
    for mangled, full, short in recorded:
        assert demangle_mangled(mangled) == full
        assert short_name(demangle(mangled)) == short


@pytest.mark.parametrize(("mangled", "text"), table("mangled_names"))
def test_a_name_is_spelled_by_the_rules(mangled: str, text: str) -> None:
    assert demangle_mangled(mangled) == text


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "_",
            "_Z",
            "plain",
            "_Zbroken",
            "_Z9short",
            "_Z1fS5_",
            "_Z1fN1a",
            "_Z1fTx_",
        ),
        *("_Z1f" + "P" * 100_000 + "i", "_Z" + "Z" * 50_000, "_Z1f" + "9" * 5_000, "_Z1f\ud800"),
    ],
)
def test_other_texts_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_cxx_library", lambda: None)
    with pytest.raises(UnknownMangling):
        demangle_mangled(name)
    assert demangle(name) == name


def test_a_short_name_does_not_fill_the_memory() -> None:
    """Each part repeats the one before twice."""
    # Each type is the second one that may be referred to: S0_, S2_, S4_.
    even = (one + two for one in ("", "1", "2") for two in "02468ACEGIKMOQSUWY")
    doubling = "".join(f"1aIS{number}_S{number}_E" for number in even)
    assert (
        demangle_mangled(f"_Z1f1aIiE{doubling[:20]}")
        == "f(a<int>, a<a<int>, a<int>>, a<a<a<int>, a<int>>, a<a<int>, a<int>>>)"
    )
    with pytest.raises(UnknownMangling):
        demangle_mangled(f"_Z1f1aIiE{doubling}")


def test_damaged_names_are_known_or_not(recorded: list[tuple[str, str, str]]) -> None:
    chance = random.Random(3)
    for _ in range(3000):
        letters = list(chance.choice(recorded)[0])
        for _ in range(chance.randint(1, 4)):
            letters[chance.randrange(len(letters))] = chance.choice(
                "0123456789SNTIEJLXZPRKVFADM_BUlt"
            )
        try:
            assert demangle_mangled("".join(letters))
        except UnknownMangling:
            continue


def test_the_library_of_the_system_knows_what_is_unknown_here() -> None:
    if names._cxx_library() is None:
        pytest.skip("no C++ library is installed")
    name = "_ZN1aIiE1fIdEEDTcmfp_fp_ET_"
    with pytest.raises(UnknownMangling):
        demangle_mangled(name)
    assert demangle(name).startswith("decltype")
