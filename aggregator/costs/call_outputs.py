"""Sizes of outputs, which ``emit_nvtx`` does not record, derived from other recorded values.

Tried in this order: the call's own parameters; the gradient that the backward of the convolution or
pool received, which has the sizes of the output; stride and padding in a module's range; the first
input of one of the next counted calls on the thread, if batch and channels are those of the output
and the other sizes are possible.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aggregator.correlate.instances import Instances
from aggregator.costs.counted_calls import CountedCalls
from aggregator.costs.formulas.call import Shape, sizes_of
from aggregator.costs.formulas.output_sizes import output_sizes
from aggregator.costs.formulas.registry import NEEDS_OUTPUT
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.frameworks.shapes import convolution_output
from aggregator.profile.arrays import Bool, Int64, Integers, ordered, row_codes
from aggregator.profile.profile import Profile
from aggregator.system.untrusted_json import read_object

_LOOK_AHEAD = 3
_MAX_DILATION = 4
_GRADIENT_FIRST = ("_backward", "_backward_overrideable")


def find_outputs(
    profile: Profile, meaning: RangeMeaning, instances: Instances, calls: CountedCalls
) -> tuple[Int64, list[Shape]]:
    """Row of each call's output sizes (-1: not needed or not found), and the distinct sizes."""
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
        has_sizes = (calls.position >= 0) & (calls.shapes >= 0)
        of_name = meaning.label if len(meaning.label) else np.zeros(1, dtype=np.int32)
        label = of_name[np.maximum(calls.name, 0)]
        self._label = label
        self._needs: Bool = has_sizes & needs[label]
        # The input of the next call may be larger or smaller than the selected elements.
        follows = np.array([label != "index_select" for label in labels])
        self._follows: Bool = follows[label]
        self._gives: Bool = has_sizes & gives[label]

    @property
    def shapes(self) -> list[Shape]:
        """Distinct sizes found."""
        return list(self._codes)

    def open_rows(self) -> Int64:
        """Calls whose output is still unknown."""
        return np.flatnonzero(self._needs & (self.found < 0))

    def _set_sizes(
        self, rows: Int64, shape_of: Callable[..., Shape | None], *keys: Integers
    ) -> None:
        """Set the sizes of rows; ``shape_of`` is called once for each distinct row of keys."""
        if not len(rows):
            return
        first, inverse = row_codes(*keys)
        codes = []
        for values in zip(*(key[first].tolist() for key in keys), strict=True):
            shape = shape_of(*values)
            codes.append(-1 if shape is None else self._codes.setdefault(shape, len(self._codes)))
        self.found[rows] = np.array(codes, dtype=np.int64)[inverse]

    def from_arguments(self) -> None:
        """From the parameters of the call itself."""
        recorded = np.array([bool(text) for text in self._parameters] or [False])
        rows = self.open_rows()
        rows = rows[recorded[np.minimum(self._calls.shapes[rows], len(recorded) - 1)]]

        def shape_of(code: int, label: int) -> Shape | None:
            parameters = read_object(self._parameters[code])
            name = self._meaning.labels[label].removesuffix("_")
            return output_sizes(name, sizes_of(self._texts[code]), parameters)

        self._set_sizes(rows, shape_of, self._calls.shapes[rows], self._label[rows])

    def from_gradients(self) -> None:
        """From the gradient that the backward of the same op instance received."""
        givers = np.flatnonzero(self._gives)
        forward = self._instances.forward[self._calls.instance[givers]]
        givers, forward = givers[forward >= 0], forward[forward >= 0]
        order = np.argsort(forward, kind="stable")
        givers, forward = givers[order], forward[order]
        for offset in range(_LOOK_AHEAD):
            rows = self.open_rows()
            at = np.searchsorted(forward, self._calls.instance[rows]) + offset
            valid = at < len(forward)
            rows, at = rows[valid], at[valid]
            same = forward[at] == self._calls.instance[rows]
            rows, giver = rows[same], givers[at[same]]
            shapes = self._calls.shapes
            self._set_sizes(rows, self._gradient, shapes[rows], shapes[giver])

    def _gradient(self, code: int, giver: int) -> Shape | None:
        image, gradient = sizes_of(self._texts[code]), sizes_of(self._texts[giver])
        if not image or len(gradient) < 2 or not gradient[0] or gradient[1] != image[0]:
            return None
        return gradient[0]

    def from_modules(self) -> None:
        """From the parameters in the range of the module around the call."""
        rows = self.open_rows()
        marker = self._instances.marker[self._calls.instance[rows]].astype(np.int64)
        described = np.isin(marker, list(self._meaning.module_texts))
        rows, marker = rows[described], marker[described]
        around = self._instances.label[self._calls.instance[rows]]

        def shape_of(code: int, marker: int, own: int, around: int) -> Shape | None:
            parameters = read_object(self._meaning.module_texts[marker].parameters)
            if "conv" not in self._meaning.labels[own] or not parameters:
                return None
            kind = self._meaning.labels[around]
            return convolution_output(sizes_of(self._texts[code]), parameters, kind)

        self._set_sizes(rows, shape_of, self._calls.shapes[rows], marker, self._label[rows], around)

    def from_next(self) -> None:
        """From the first input of the next calls of the same thread, if batch and channels fit."""
        calls = self._calls
        with_sizes = np.flatnonzero((calls.position >= 0) & (calls.shapes >= 0))
        thread = self._instances.thread[calls.instance[with_sizes]].astype(np.int64)
        order = ordered(thread, calls.position[with_sizes])
        with_sizes, thread = with_sizes[order], thread[order]
        order_of = np.full(len(calls), -1, dtype=np.int64)
        order_of[with_sizes] = np.arange(len(with_sizes))
        for offset in range(1, _LOOK_AHEAD + 1):
            rows = self.open_rows()
            rows = rows[self._follows[rows]]
            after = order_of[rows] + offset
            valid = after < len(with_sizes)
            rows, after = rows[valid], after[valid]
            same = thread[after] == thread[order_of[rows]]
            rows, after = rows[same], with_sizes[after[same]]
            is_pool = np.array(["conv" not in label for label in self._meaning.labels])
            pools = is_pool[self._label[rows]]
            self._set_sizes(rows, self._following, calls.shapes[rows], calls.shapes[after], pools)

    def _following(self, code: int, next_code: int, pool: bool) -> Shape | None:  # noqa: FBT001
        sizes, after = sizes_of(self._texts[code]), sizes_of(self._texts[next_code])
        if not sizes or not after or len(sizes[0]) != len(after[0]) or len(sizes[0]) < 3:
            return None
        image, result = sizes[0], after[0]
        weight = sizes[1] if len(sizes) > 1 else ()
        channels = image[1] if pool else (weight[0] if weight else 0)
        if result[:2] != (image[0], channels):
            return None
        # After a pool, the same sizes again are probably its input, used by another call.
        if pool and result == image:
            return None
        reach = [0 if pool else size for size in (weight[2:] or (1,) * len(image[2:]))]
        fits = all(map(_is_possible, result[2:], image[2:], reach))
        return result if fits else None


def _is_possible(result: int, size: int, kernel: int) -> bool:
    """Whether an output size is possible for an input size (kernel 0: a pool's, unknown).

    For strides up to the kernel's size (or 2 for a pointwise one) and dilations up to 4.
    """
    if not kernel:
        return 0 < result <= size + 2
    least = (size - 1 - _MAX_DILATION * (kernel - 1)) // max(kernel, 2) + 1
    return max(least, 1) <= result <= size + 2 * kernel
