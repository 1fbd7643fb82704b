"""Sizes of outputs, which ``emit_nvtx`` does not record, from what else the profile tells.

Where the source tells the call's own parameters, they give the output. A convolution's or pool's
output has the sizes of the gradient that its backward got: the next choice. Otherwise the stride
and padding that a module's range records, and last the first input of one of the next counted calls
on the thread, if batch and channels are those of the output and the rest can be.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from aggregator.columns import ordered
from aggregator.correlate.ops import Instances
from aggregator.flops.convolution import output_shape
from aggregator.flops.cost import Shape
from aggregator.flops.outputs import called_output
from aggregator.flops.registry import NEEDS_OUTPUT
from aggregator.flops.sizes import sizes_of
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.profile import Bool, Int64, Profile
from aggregator.told import read_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from aggregator.correlate.costs import CountedCalls

_LOOK_AHEAD = 3
_MAX_DILATION = 4
_GRADIENT_FIRST = ("_backward", "_backward_overrideable")


def find_outputs(
    profile: Profile, meaning: RangeMeaning, instances: Instances, calls: CountedCalls
) -> tuple[Int64, list[Shape]]:
    """Number of the output's sizes for each call (-1: none needed or found), and the sizes."""
    finder = _Finder(profile, meaning, instances, calls)
    for step in (
        finder.from_arguments,
        finder.from_gradients,
        finder.from_modules,
        finder.from_next,
    ):
        if len(finder.open_rows()):
            step()
    return finder.found, finder.shapes


class _Finder:
    def __init__(
        self, profile: Profile, meaning: RangeMeaning, instances: Instances, calls: CountedCalls
    ) -> None:
        self._texts = profile.shape_texts
        self._parameters = profile.shape_parameters
        self._meaning = meaning
        self._instances = instances
        self._calls = calls
        self._codes: dict[Shape, int] = {}
        self.found: Int64 = np.full(len(calls), -1, dtype=np.int64)
        labels = [label.removesuffix("_") for label in meaning.labels] or [""]
        needs = np.array([label in NEEDS_OUTPUT for label in labels])
        gives = np.array([label.endswith(_GRADIENT_FIRST) for label in labels])
        has = (calls.position >= 0) & (calls.shapes >= 0)
        of_name = meaning.label if len(meaning.label) else np.zeros(1, dtype=np.int32)
        label = of_name[np.maximum(calls.name, 0)]
        self._label = label
        self._needs: Bool = has & needs[label]
        # What is selected from a tensor may be all that the next call takes, or any part of it.
        follows = np.array([label != "index_select" for label in labels])
        self._follows: Bool = follows[label]
        self._gives: Bool = has & gives[label]

    @property
    def shapes(self) -> list[Shape]:
        """Sizes by number."""
        return list(self._codes)

    def open_rows(self) -> Int64:
        """Calls whose output is still unknown."""
        return np.flatnonzero(self._needs & (self.found < 0))

    def _take(self, rows: Int64, key: Int64, shape_of: Callable[[int], Shape | None]) -> None:
        """Ask once per distinct key, by the position of a row that has it."""
        if not len(rows):
            return
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        codes = []
        for sample in first.tolist():
            shape = shape_of(sample)
            codes.append(-1 if shape is None else self._codes.setdefault(shape, len(self._codes)))
        self.found[rows] = np.array(codes, dtype=np.int64)[inverse.ravel()]

    def from_arguments(self) -> None:
        """Stride, padding and so on that the call itself was given."""
        told = np.array([bool(text) for text in self._parameters] or [False])
        rows = self.open_rows()
        rows = rows[told[np.minimum(self._calls.shapes[rows], len(told) - 1)]]
        codes = np.stack([self._calls.shapes[rows], self._label[rows]], axis=1)

        def shape_of(at: int) -> Shape | None:
            code, label = codes[at].tolist()
            parameters = read_object(self._parameters[code])
            name = self._meaning.labels[label].removesuffix("_")
            return called_output(name, sizes_of(self._texts[code]), parameters)

        self._take(rows, _pair_key(codes), shape_of)

    def from_gradients(self) -> None:
        """The gradient that the backward of the same op instance got for the same image."""
        givers = np.flatnonzero(self._gives)
        forward = self._instances.forward[self._calls.instance[givers]]
        givers, forward = givers[forward >= 0], forward[forward >= 0]
        order = np.argsort(forward, kind="stable")
        givers, forward = givers[order], forward[order]
        for offset in range(_LOOK_AHEAD):
            rows = self.open_rows()
            place = np.searchsorted(forward, self._calls.instance[rows]) + offset
            valid = place < len(forward)
            rows, place = rows[valid], place[valid]
            same = forward[place] == self._calls.instance[rows]
            rows, giver = rows[same], givers[place[same]]
            codes = np.stack([self._calls.shapes[rows], self._calls.shapes[giver]], axis=1)
            self._take(rows, _pair_key(codes), partial(self._gradient, codes))

    def _gradient(self, codes: Int64, at: int) -> Shape | None:
        image, gradient = (sizes_of(self._texts[code]) for code in codes[at].tolist())
        if not image or len(gradient) < 2 or not gradient[0] or gradient[1] != image[0]:
            return None
        return gradient[0]

    def from_modules(self) -> None:
        """Stride, padding and so on that the range of the module around it tells."""
        rows = self.open_rows()
        marker = self._instances.marker[self._calls.instance[rows]].astype(np.int64)
        told = np.isin(marker, list(self._meaning.module_texts))
        rows, marker = rows[told], marker[told]
        codes = np.stack([self._calls.shapes[rows], marker], axis=1)
        labels = self._label[rows]
        instances = self._calls.instance[rows]

        def shape_of(at: int) -> Shape | None:
            own = self._meaning.labels[int(labels[at])]
            around = self._meaning.labels[int(self._instances.label[instances[at]])]
            text = self._meaning.module_texts[int(marker[at])].parameters
            parameters = read_object(text)
            if "conv" not in own or not parameters:
                return None
            return output_shape(sizes_of(self._texts[int(codes[at][0])]), parameters, around)

        self._take(rows, _pair_key(codes), shape_of)

    def from_next(self) -> None:
        """The first input of the next calls of the same thread, where batch and channels fit."""
        calls = self._calls
        with_sizes = np.flatnonzero((calls.position >= 0) & (calls.shapes >= 0))
        thread = self._instances.thread[calls.instance[with_sizes]].astype(np.int64)
        order = ordered(thread, calls.position[with_sizes])
        with_sizes, thread = with_sizes[order], thread[order]
        place_of = np.full(len(calls), -1, dtype=np.int64)
        place_of[with_sizes] = np.arange(len(with_sizes))
        for offset in range(1, _LOOK_AHEAD + 1):
            rows = self.open_rows()
            rows = rows[self._follows[rows]]
            after = place_of[rows] + offset
            valid = after < len(with_sizes)
            rows, after = rows[valid], after[valid]
            same = thread[after] == thread[place_of[rows]]
            rows, after = rows[same], with_sizes[after[same]]
            codes = np.stack([calls.shapes[rows], calls.shapes[after]], axis=1)
            is_pool = np.array(["conv" not in label for label in self._meaning.labels])
            pools = is_pool[self._label[rows]]
            key = _pair_key(np.stack([_pair_key(codes), pools.astype(np.int64)], axis=1))
            self._take(rows, key, partial(self._following, codes, pools))

    def _following(self, codes: Int64, pools: Bool, at: int) -> Shape | None:
        sizes, after = (sizes_of(self._texts[code]) for code in codes[at].tolist())
        pool = bool(pools[at])
        if not sizes or not after or len(sizes[0]) != len(after[0]) or len(sizes[0]) < 3:
            return None
        image, result = sizes[0], after[0]
        weight = sizes[1] if len(sizes) > 1 else ()
        channels = image[1] if pool else (weight[0] if weight else 0)
        if result[:2] != (image[0], channels):
            return None
        # After a pool, the same sizes again are as likely its input, used once more.
        if pool and result == image:
            return None
        reach = [0 if pool else size for size in (weight[2:] or (1,) * len(image[2:]))]
        fits = all(map(_can_be, result[2:], image[2:], reach))
        return result if fits else None


def _can_be(result: int, size: int, kernel: int) -> bool:
    """Whether a side of the output follows from one of the input (kernel 0: a pool's, unknown).

    With steps no longer than the kernel (a pointwise one may take every second place), and holes
    of at most four.
    """
    if not kernel:
        return 0 < result <= size + 2
    least = (size - 1 - _MAX_DILATION * (kernel - 1)) // max(kernel, 2) + 1
    return max(least, 1) <= result <= size + 2 * kernel


def _pair_key(pairs: Int64) -> Int64:
    """One number per distinct pair."""
    if not len(pairs):
        return np.empty(0, dtype=np.int64)
    pairs = pairs.astype(np.int64)
    low = pairs.min(axis=0)
    width = int(pairs[:, 1].max() - low[1]) + 1
    result: Int64 = (pairs[:, 0] - low[0]) * width + (pairs[:, 1] - low[1])
    return result
