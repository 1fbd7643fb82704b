"""The names of phases: what ranges of serving engines and of dlprof_nvtx say about a step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from aggregator.system.untrusted_json import read_json

PREFILL, DECODE, MIXED, TRAIN, EVAL = "prefill", "decode", "mixed", "train", "eval"
OURS = "dlprof.phase: "
"""Begins the names that dlprof_nvtx writes."""
_OF_OURS = re.compile(rf"^{re.escape(OURS)}(?P<name>[^{{]+?)(?: (?P<more>\{{.*\}}))?$")
_VLLM = re.compile(
    r"^execute_(?:\d{1,12}_)?context_(?P<contexts>\d{1,12})\((?:sq)?(?P<context_tokens>\d{0,12})[^)]*\)"
    r"_generation_(?P<generations>\d{1,12})\((?:sq)?(?P<generation_tokens>\d{0,12})[^)]*\)"
)
_VLLM_OLD = re.compile(r"^execute_new_(?P<new>\d{1,12})_cached_(?P<cached>\d{1,12})$")
_TENSORRT_LLM = re.compile(
    r"_forward_step \d{1,12}: (?P<contexts>\d{1,12}) ctx reqs, (?:\d{1,12} ctx tokens, )?"
    r"(?P<generations>\d{1,12}) gen reqs"
)
_STEP = re.compile(
    r"^(?:step\[(?P<mode>[A-Z_]+) |(?P<name>prefill|decode)\[)(?P<fields>bs=\d{1,12}.*)"
)
"""SGLang's ``step[EXTEND bs=4 toks=512]``, and ``decode[bs=117/128 tok=117 d=117]`` of ATOM."""
_FIELD = re.compile(r"(?<![^\s])(?P<name>\w+)=(?P<value>\d{1,18})(?!\d)")
_MODES = {
    "DECODE": DECODE,
    "EXTEND": PREFILL,
    "PREFILL": PREFILL,
    "SPLIT_PREFILL": PREFILL,
    "MIXED": MIXED,
    "VERIFY": DECODE,
    "TARGET_VERIFY": DECODE,
}
_SPECULATION = re.compile(r"^step\[(?:\w+_)?(?:VERIFY|DRAFT_EXTEND)")
"""Speculative decoding: a draft model has ranges of the same names for tokens of its own."""
_PLAIN = re.compile(
    r"^(?P<name>prefill|decode)(?:[ _-]?step)?(?:[ _#:-]{0,2}\d{1,12})?$", re.IGNORECASE
)
_MOST_TOKENS = 1 << 40


_REQUESTS = r"\d{1,12}\(sq(\d{1,12})sk(\d{1,18})sqsq(\d{1,18})sqsk(\d{1,18})\)"
_VLLM_LENGTHS = re.compile(rf"^execute_(?:\d{{1,12}}_)?context_{_REQUESTS}_generation_{_REQUESTS}")
_LONGEST_STEP = 1024
"""Longer names are call stacks."""
_LENGTH_FIELDS = ("sq", "sk", "sqsq", "sqsk")


class Requests(NamedTuple):
    """Sums over the requests of a step, of their new tokens and of all of their tokens so far."""

    queries: int = 0  # New tokens.
    keys: int = 0  # Tokens with the new ones.
    squares: int = 0  # Squares of the new tokens.
    products: int = 0  # New tokens times tokens.


class StepLengths(NamedTuple):
    """Lengths of the sequences that a step of an engine computes."""

    context: Requests  # Requests in prefill.
    generation: Requests  # Requests that decode.


@lru_cache(maxsize=65_536)
def read_lengths(name: str) -> StepLengths | None:
    """Read the lengths in the name of a step, or None if it has none.

    ``execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk550sqsq32sqsk550)``, or
    ``step[MIXED bs=4 c_sq=3 c_sk=7 ...]``.
    """
    if "sqsk" not in name or len(name) > _LONGEST_STEP:
        return None
    if found := _VLLM_LENGTHS.match(name):
        numbers = [int(text) for text in found.groups()]
    else:
        value = {match["name"]: int(match["value"]) for match in _FIELD.finditer(name)}
        numbers = [value.get(f"{kind}_{field}", -1) for kind in "cg" for field in _LENGTH_FIELDS]
    if min(numbers) < 0 or not any(numbers):
        return None
    return StepLengths(Requests(*numbers[:4]), Requests(*numbers[4:]))


@dataclass(frozen=True)
class PhaseName:
    """What the name of a range says about its phase."""

    phase: str  # Name of the phase.
    tokens: int = -1  # Tokens that it computes; -1: unknown.
    sequences: int = -1  # Sequences in its batch; -1: unknown.


def read_phase(name: str) -> PhaseName | None:
    """Read the name of a range, or None if it is no phase."""
    if found := _OF_OURS.match(name):
        more = read_json(found["more"]) if found["more"] else {}
        more = more if isinstance(more, dict) else {}
        return PhaseName(found["name"], _count(more.get("tokens")), _count(more.get("sequences")))
    if found := _VLLM.match(name):
        return _vllm(found)
    if found := _VLLM_OLD.match(name):
        return _step(int(found["new"]), int(found["cached"]), -1)
    if found := _TENSORRT_LLM.search(name):
        return _step(int(found["contexts"]), int(found["generations"]), -1)
    if found := _STEP.match(name):
        return _fields(found)
    return None


def _step(contexts: int, generations: int, tokens: int) -> PhaseName | None:
    """Name a step of an engine for so many requests in prefill and in decoding."""
    if not contexts + generations:
        return None
    phase = DECODE if not contexts else MIXED if generations else PREFILL
    return PhaseName(phase, _count(tokens), _count(contexts + generations))


def _vllm(found: re.Match[str]) -> PhaseName | None:
    generations = int(found["generations"])
    texts = found["context_tokens"], found["generation_tokens"]
    # Of the tokens of speculative decoding some are rejected.
    is_known = all(texts) and (not generations or int(texts[1]) == generations)
    tokens = sum(int(text) for text in texts) if is_known else -1
    return _step(int(found["contexts"]), generations, tokens)


def _fields(found: re.Match[str]) -> PhaseName | None:
    """Parse a step with its figures by name; ``p`` are requests in prefill that decode, too."""
    value = {match["name"]: int(match["value"]) for match in _FIELD.finditer(found["fields"])}
    batch = value.get("bs", 0)
    phase = _MODES.get(found["mode"]) if found["mode"] else found["name"]
    if phase is None or not batch:
        return None
    if phase == DECODE and value.get("p"):
        phase = MIXED
    if found["mode"] == "DECODE":
        tokens = batch
    elif "c_sq" in value and "g_sq" in value:
        tokens = value["c_sq"] + value["g_sq"]
    else:
        tokens = value.get("toks", value.get("tok", value.get("tokens", -1)))
    if "spec" in value or "VERIFY" in (found["mode"] or ""):
        tokens = -1
    return PhaseName(phase, _count(tokens), _count(batch))


def _count(value: object) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < _MOST_TOKENS else -1  # type: ignore[operator, return-value]


def read_phases(names: Sequence[str]) -> dict[int, PhaseName]:
    """Read the names of all ranges: the phase of those that are any, by the number of the name.

    Ranges with no more in their name than ``prefill`` and ``decode`` are phases if a profile has
    both: a program may decode images.
    """
    known = {
        code: phase for code, name in enumerate(names) if (phase := read_phase(name)) is not None
    }
    if any(_SPECULATION.match(name) for name in names):
        for code, phase in known.items():
            if _STEP.match(names[code]):
                known[code] = replace(phase, tokens=-1)
    plain = {
        code: PhaseName(found["name"].lower())
        for code, name in enumerate(names)
        if code not in known and (found := _PLAIN.match(name))
    }
    if {PREFILL, DECODE} <= {phase.phase for phase in plain.values()}:
        known |= plain
    return known
