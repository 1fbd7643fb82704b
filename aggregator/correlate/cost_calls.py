"""From a counted call to its unit: name, sizes, element types, precision, and the formula."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aggregator.communication import is_communication
from aggregator.correlate.ops import Instances, Origin
from aggregator.flops.cost import UNKNOWN, Cost, OpCall, Shape
from aggregator.flops.kernel_types import SIZES, KernelTypes, kernel_types
from aggregator.flops.markers import count_marked
from aggregator.flops.registry import NEEDS_OUTPUT, count, is_collective
from aggregator.flops.sizes import sizes_of
from aggregator.flops.units import LINK, NETWORK, VECTOR, CostUnit
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.profile import Bool, Int64, Profile
from aggregator.tensor_cores import classify
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.correlate.costs import CountedCalls

# Kernels of a convolution that lay out, split or add up what others compute.
_HELPER = re.compile(
    r"nchwToNhwc|nhwcToNchw|generic4Channel|scalePacked|reduce_wgrad|init_device|splitK_?reduce|flip_filter|ranspose"
    r"|[oO]ffsets|gemm_pointers|fft2d_|winograd\w*(?:Data|Delta|Output|Filter)|[pP]adding|tensorTransform"
    r"|elementwise_kernel|reduce_kernel|[fF]ill|memset|convertTensor|bias|cudnn::ops::"
)
_COPY_NAMES = {1: "copy host to device", 2: "copy device to host", 8: "copy on the device"}
_TENSOR_PRECISION = {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float8": "float8",
    "int8": "int8",
    "tf32": "tf32",
    "float32": "tf32",
    "float64": "float64_tensor",
    "complex64": "tf32",
}
_SCALAR_PRECISION = {
    "float16": "float16_vector",
    "float64": "float64",
    "float32": VECTOR,
    "tf32": VECTOR,
    "bfloat16": VECTOR,
    "complex64": VECTOR,
}
NO_SIZES = say("the sizes of its arguments were not recorded")
_NO_TYPE = say("the kernels' names do not tell the element type")
_NO_OUTPUT = say("the sizes of its output were not recorded")
_BETWEEN_GPUS = say("it moves data between GPUs")
_IN_GRAPH = say("the kernels of a CUDA graph were not recorded")
_BY_VALUES = say("its operations depend on the values")
_NO_FORMULA = say("there is no formula for it")


@dataclass(frozen=True)
class CallTypes:
    """What the names of kernels tell.

    Attributes:
        of_kernel: Row of the other columns for each kernel of the profile.
        types: Element types.
        is_known: Whether the name tells them.
        is_main: Whether the kernel computes, not only lays out.
        uses_tc: Whether it runs Tensor Core instructions.
        communicates: Whether it moves data between GPUs.
    """

    of_kernel: Int64
    types: tuple[KernelTypes, ...]
    is_known: Bool
    is_main: Bool
    uses_tc: Bool
    communicates: Bool


def kernel_type_table(profile: Profile) -> CallTypes:
    """Read every distinct (kernel name, device) once."""
    kernels = profile.kernels
    width = len(profile.devices) or 1
    key = kernels.long_name.astype(np.int64) * width + kernels.device
    unique, inverse = np.unique(key, return_inverse=True)
    names = [profile.strings[code] for code in (unique // width).tolist()]
    uses_tc = np.zeros(max(len(unique), 1), dtype=bool)
    for device in np.unique(unique % width).tolist():
        rows = np.flatnonzero(unique % width == device)
        capability = profile.devices[device].compute_capability or (9, 0)
        uses_tc[rows] = np.asarray(classify([names[row] for row in rows], capability)) == 1
    types = _cudnn_halves(names, [kernel_types(name) for name in names]) or (KernelTypes(),)
    return CallTypes(
        of_kernel=inverse.ravel().astype(np.int64),
        types=types,
        is_known=np.array([bool(one.read or one.write) for one in types]),
        is_main=np.array([_HELPER.search(name) is None for name in names] or [False]),
        uses_tc=uses_tc,
        communicates=np.array([is_communication(name) for name in names] or [False]),
    )


def _cudnn_halves(names: list[str], types: list[KernelTypes]) -> tuple[KernelTypes, ...]:
    """Generated kernels of cuDNN say ``f16`` for both 16-bit types: the one that all others use."""
    either = [
        "cudnn_generated" in name and one.read == "float16"
        for name, one in zip(names, types, strict=True)
    ]
    others = {one.read for one, is_either in zip(types, either, strict=True) if not is_either}
    if "bfloat16" not in others or "float16" in others:
        return tuple(types)
    bfloat16 = KernelTypes("bfloat16", "bfloat16")
    return tuple(
        bfloat16 if is_either else one for one, is_either in zip(types, either, strict=True)
    )


class Describer:
    """Makes the unit of a counted call."""

    def __init__(
        self, profile: Profile, meaning: RangeMeaning, instances: Instances, types: CallTypes
    ) -> None:
        self._profile = profile
        self._meaning = meaning
        self._instances = instances
        self._types = types
        # A cast to float32 names only what it writes; with autocast it reads what that computes in.
        halves = {"float16", "bfloat16"} & {one.read for one in types.types}
        self._cast_read = 2.0 if halves else None

    def types_code(self, types: Int64) -> Int64:
        """A number per distinct element types; -1: none."""
        codes: dict[KernelTypes, int] = {}
        of_row = [codes.setdefault(one, len(codes)) for one in self._types.types]
        result: Int64 = np.where(types >= 0, np.array(of_row, dtype=np.int64)[types], -1)
        return result

    def described_by(self, instance: Int64) -> Int64:
        """Row of the instance whose marker describes each one: a backward one's forward."""
        forward = self._instances.forward[instance]
        result: Int64 = np.where(forward >= 0, forward, instance)
        return result

    def context(self, instance: Int64, position: Int64) -> Int64:
        """What of the op around a call matters: a transposed convolution, a marker, its name."""
        labels = self._meaning.labels
        transposed = np.array(["conv_transpose" in label for label in labels] or [False])
        source = self.described_by(instance)
        label = self._instances.label[source].astype(np.int64)
        stray = self._instances.origin[source] == Origin.STRAY
        is_transposed = ~stray & transposed[np.where(stray, 0, np.minimum(label, len(labels) - 1))]
        name = self._instances.range_name[source].astype(np.int64)
        marked = np.isin(name, list(self._meaning.texts)) & (name >= 0)
        by_marker = 2 + 2 * name + (source != instance)
        alone = -(2 + 2 * label + stray)
        result: Int64 = np.where(
            position >= 0, is_transposed.astype(np.int64), np.where(marked, by_marker, alone)
        )
        return result

    def unit(self, calls: CountedCalls, row: int, output: Shape | None) -> CostUnit:
        """The unit of one call.

        Args:
            calls: All calls.
            row: The call.
            output: Sizes of its output, where found.
        """
        kind = int(calls.kind[row])
        if kind == 1:
            return _copied(int(calls.detail[row]), int(calls.num_bytes[row]))
        if kind == 2:
            moved = int(calls.num_bytes[row])
            return CostUnit("set on the device", flops=0, num_bytes=moved, precision=VECTOR)
        if kind == 3:
            return CostUnit("graph", reason=_IN_GRAPH)
        if calls.position[row] < 0:
            return self._outside(calls, row, output)
        return self._counted(calls, row, output)

    def _counted(self, calls: CountedCalls, row: int, output: Shape | None) -> CostUnit:
        code = int(calls.shapes[row])
        text = self._profile.shape_texts[code] if code >= 0 else ""
        name = self._meaning.labels[int(self._meaning.label[int(calls.name[row])])]
        types = self._types_of(calls, row)
        instance = np.array([calls.instance[row]])
        transposed = self.context(instance, np.zeros(1, dtype=np.int64))[0] == 1
        call = OpCall(
            name,
            sizes_of(text),
            *self._element_sizes(types),
            output,
            "conv_transpose" if transposed else "",
            one_gradient=int(calls.main_kernels[row]) == 1,
            lists=types.lists,
        )
        cost = count(call) if text else UNKNOWN
        reason = NO_SIZES if not text else _reason(call, cost)
        precision = self._precision(cost, types, uses_tc=bool(calls.uses_tc[row]))
        return _unit(call, text, cost, NETWORK if is_collective(name) else precision, reason)

    def _outside(self, calls: CountedCalls, row: int, output: Shape | None) -> CostUnit:
        """Work in no range with a formula: described by a marker, or unknown."""
        instance = int(self.described_by(np.array([calls.instance[row]]))[0])
        label = int(self._instances.label[instance])
        stray = self._instances.origin[instance] == Origin.STRAY
        names = self._profile.strings if stray else self._meaning.labels
        name = names[label] if 0 <= label < len(names) else ""
        text = self._meaning.texts.get(int(self._instances.range_name[instance]))
        if bool(calls.communicates[row]):
            return CostUnit("communication", reason=_BETWEEN_GPUS)
        if text is None or stray:
            return CostUnit(name, reason=_NO_FORMULA)
        types = self._types_of(calls, row)
        outputs = sizes_of(text.output_shapes)
        call = OpCall(
            name,
            sizes_of(text.input_shapes),
            *self._element_sizes(types, text.data_type),
            outputs[0] if outputs and outputs[0] else output,
            one_gradient=int(calls.main_kernels[row]) == 1,
        )
        cost = count_marked(call, backward=instance != int(calls.instance[row]))
        precision = self._precision(
            cost, types, uses_tc=bool(calls.uses_tc[row]), told=text.data_type
        )
        return _unit(call, text.input_shapes, cost, precision, _reason(call, cost))

    def _types_of(self, calls: CountedCalls, row: int) -> KernelTypes:
        code = int(calls.types[row])
        return self._types.types[code] if code >= 0 else KernelTypes()

    def _element_sizes(
        self, types: KernelTypes, told: str = ""
    ) -> tuple[float | None, float | None]:
        """Sizes of elements read and written, by the kernels or else by the marker."""
        told = told.removeprefix("torch.")
        known = SIZES.get("float8" if told.startswith("float8") else told)
        read, write = SIZES.get(types.read, known), SIZES.get(types.write, known)
        if types.is_cast and not types.read and types.write == "float32":
            read = self._cast_read
        return read, write

    @staticmethod
    def _precision(cost: Cost, types: KernelTypes, *, uses_tc: bool, told: str = "") -> str:
        if not cost.is_matrix:
            return VECTOR
        kind = types.read or told.removeprefix("torch.")
        kind = "float8" if kind.startswith("float8") else kind
        return (_TENSOR_PRECISION if uses_tc else _SCALAR_PRECISION).get(kind, "")


def _copied(copy_kind: int, num_bytes: int) -> CostUnit:
    """A copy on the device reads and writes; one over the bus moves its bytes once."""
    name = _COPY_NAMES.get(copy_kind, "copy between devices")
    on_device = copy_kind == 8
    return CostUnit(
        name,
        flops=0,
        num_bytes=2 * num_bytes if on_device else num_bytes,
        precision=VECTOR if on_device else LINK,
    )


def _unit(call: OpCall, text: str, cost: Cost, precision: str, reason: str) -> CostUnit:
    output = json.dumps(call.output, separators=(",", ":")) if call.output else ""
    return CostUnit(
        call.name, text, output, cost.flops, cost.num_bytes, cost.is_matrix, precision, reason
    )


def _reason(call: OpCall, cost: Cost) -> str:
    if is_collective(call.name) and call.shapes:
        return _BETWEEN_GPUS if cost.num_bytes is not None else _NO_TYPE
    if cost.num_bytes is not None:
        return "" if cost.flops is not None else _BY_VALUES
    if cost.flops is not None and (call.output is not None or call.name != "index_select"):
        return _NO_TYPE
    needs = call.name in NEEDS_OUTPUT or call.name.startswith("conv") or "pool" in call.name
    if call.output is None and needs:
        return _NO_OUTPUT
    return _NO_FORMULA if call.shapes else NO_SIZES
