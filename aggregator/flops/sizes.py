"""Sizes of arguments as PyTorch records them."""

from __future__ import annotations

from functools import lru_cache

from aggregator.flops.cost import Shape
from aggregator.told import read_list


@lru_cache(maxsize=65536)
def sizes_of(text: str) -> tuple[Shape, ...]:
    """Sizes of a call's arguments; empty: none recorded, or no sizes.

    Args:
        text: JSON list, ``[[64, 3, 224, 224], [64, 3, 7, 7], [], []]``.
    """
    result = []
    for shape in read_list(text):
        whole = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
        result.append(tuple(shape) if whole else ())
    return tuple(result)
