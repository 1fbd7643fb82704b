"""Counters in range names: the numbers that grow from step to step, as in ``iteration 17``.

Only such numbers are replaced by ``#``, so that all steps have one name. A number that identifies a
part (``layer 3``, ``execute_context_1(32)``, Triton kernels, hashes) keeps its name distinct.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DIGITS = re.compile(r"\d+")
COUNTED_STEP = re.compile(r"(?:^|[^a-z])(?:step|iter|iteration|batch)(?:_num)?[^a-z]*#", re.I)
"""A template that counts steps: ``step #`` or ``train#step_num=##``, but not ``layer #``."""
STEP_WORD = re.compile(
    r"(?<![a-z])(?:step|iter|iteration|(?:mini_?|training_)?batch|train_?step)(?![a-z])", re.I
)
"""A name that says that it is a step, with or without a number."""
_PART_WORD = re.compile(
    r"(?<![a-z])(?:layers?|blocks?|stages?|experts?|heads?|buckets?|shards?|chunks?|rank|gpu|device"
    r"|params?|grads?|weights?|stream|module|encoder|decoder|micro\w*|triton\w*|size|bs)(?![a-z])",
    re.I,
)
"""A name of a part of a model or of a step: its number identifies the part."""
_PLACE = re.compile(r"(?<![a-z])(?:rank|gpu|device)(?![a-z])", re.I)
_MIN_COUNTED = 3


def names_part(name: str) -> bool:
    """Return whether a name is one of a part; a step that says on which rank it runs is whole."""
    text = _PLACE.sub("", name) if COUNTED_STEP.search(template_of(name)) else name
    return _PART_WORD.search(text) is not None


def template_of(name: str) -> str:
    """Return the name with every number replaced by ``#``."""
    return _DIGITS.sub("#", name)


def fold_counters(names: Sequence[str], repeats: Sequence[bool]) -> list[str]:
    """Replace the counters in names by ``#``.

    Args:
        names: Distinct names.
        repeats: Whether each name occurs more than once in a process: a counter does not, unless
            its name says that it counts steps.
    """
    alike: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        alike.setdefault(template_of(name), []).append(row)
    folded = list(names)
    for template, rows in alike.items():
        if "#" not in template:
            continue
        if COUNTED_STEP.search(template) and not names_part(template):
            shown = [template] * len(rows)
        elif names_part(template) or any(repeats[row] for row in rows):
            continue
        else:
            shown = _without_run([names[row] for row in rows])
        for row, text in zip(rows, shown, strict=True):
            folded[row] = text
    return folded


def _without_run(names: list[str]) -> list[str]:
    """Replace the only number that differs, if its values are consecutive; else no number."""
    found = [_DIGITS.findall(name) for name in names]
    varying = [
        place for place, values in enumerate(zip(*found, strict=True)) if len(set(values)) > 1
    ]
    if len(varying) != 1 or len(names) < _MIN_COUNTED:
        return names
    place = varying[0]
    values = sorted(int(numbers[place]) for numbers in found)
    if values[-1] - values[0] != len(values) - 1 or not all(_stands_alone(n, place) for n in names):
        return names
    return [_replaced(name, place) for name in names]


def _stands_alone(name: str, place: int) -> bool:
    """Whether a number is no part of a word: ``item 3`` and ``item_3``, but not ``conv2d``."""
    match = list(_DIGITS.finditer(name))[place]
    around = name[: match.start()][-1:] + name[match.end() :][:1]
    return not any(character.isalpha() for character in around)


def _replaced(name: str, place: int) -> str:
    match = list(_DIGITS.finditer(name))[place]
    return f"{name[: match.start()]}#{name[match.end() :]}"
