"""The unit of a counted call: name, sizes, element types, precision, and cost by formula."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from aggregator.correlate.instances import Instances, Origin
from aggregator.costs.counted_calls import COPY, GRAPH, SET, CountedCalls
from aggregator.costs.counted_ranges import NestedRanges, inner_tensors, recorded_call
from aggregator.costs.formulas.call import UNKNOWN, Cost, OpCall, Shape, sizes_of
from aggregator.costs.formulas.markers import count_marked
from aggregator.costs.formulas.registry import NEEDS_OUTPUT, count, formula_of, is_collective
from aggregator.costs.kernel_table import KernelTable
from aggregator.costs.units import LINK, NETWORK, VECTOR, CostUnit
from aggregator.frameworks.inductor import NOT_RECORDED
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.frameworks.serving import read_lengths
from aggregator.kernels.element_types import SIZES, ElementTypes, element_size, plain_type
from aggregator.kernels.source_ops import is_generated
from aggregator.profile.arrays import Int64
from aggregator.profile.profile import Profile
from aggregator.texts import say

_COPY_NAMES = {1: "copy host to device", 2: "copy device to host", 8: "copy on the device"}
_TENSOR_ONLY = ("float8", "float6", "float4")
_TENSOR_PRECISION = {
    **{kind: kind for kind in ("float16", "bfloat16", "int8", "tf32", *_TENSOR_ONLY)},
    "float32": "tf32",
    "complex64": "tf32",
    "float64": "float64_tensor",
}
_SCALAR_PRECISION = {
    **dict.fromkeys(("float32", "tf32", "bfloat16", "complex64"), VECTOR),
    "float16": "float16_vector",
    "float64": "float64",
    **{kind: kind for kind in _TENSOR_ONLY},
}
NO_SIZES = say("the sizes of its arguments were not recorded")
_NO_TYPE = say("the kernels' names have no element type")
_NO_OUTPUT = say("the sizes of its output were not recorded")
_BETWEEN_GPUS = say("it moves data between GPUs")
_NO_BYTES = say("its bytes were not recorded")
_IN_GRAPH = say("the kernels of a CUDA graph were not recorded")
_BY_VALUES = say("its operations depend on the values")
_NO_FORMULA = say("there is no formula for it")
_NO_OPERATOR = say("no operator was recorded around it")
_FEW_SIZES = say("not all sizes that its formula needs were recorded")
_FUSED = say("the operations of fused ops are not counted")


class CallDescriber:
    """Makes the units of counted calls."""

    def __init__(
        self,
        profile: Profile,
        meaning: RangeMeaning,
        instances: Instances,
        kernels: KernelTable,
        nested: NestedRanges | None,
    ) -> None:
        self._profile = profile
        self._nested = nested
        self._meaning = meaning
        self._instances = instances
        self._kernels = kernels
        self._compiled = list(meaning.compiled)  # Rows of the names.
        # A cast to float32 names only the type written; under autocast it reads a 16-bit type.
        halves = {"float16", "bfloat16"} & {element.read for element in kernels.types}
        self._cast_read = 2.0 if halves else None

    def types_code(self, types: Int64) -> Int64:
        """A number per distinct element types; -1: unknown."""
        codes: dict[ElementTypes, int] = {}
        of_row = [codes.setdefault(element, len(codes)) for element in self._kernels.types]
        result: Int64 = np.where(types >= 0, np.array(of_row, dtype=np.int64)[types], -1)
        return result

    def described_by(self, instance: Int64) -> Int64:
        """Row of the instance whose marker describes each one: its forward for a backward one."""
        forward = self._instances.forward[instance]
        is_own = (forward < 0) | np.isin(self._instances.range_name[instance], self._compiled)
        result: Int64 = np.where(is_own, instance, forward)
        return result

    def context(self, instance: Int64, position: Int64) -> Int64:
        """Code of the properties of the op around a call that its cost depends on."""
        labels = self._meaning.labels
        transposed = np.array(["conv_transpose" in label for label in labels] or [False])
        source = self.described_by(instance)
        label = self._instances.label[source].astype(np.int64)
        stray = self._instances.origin[source] == Origin.STRAY
        is_transposed = ~stray & transposed[np.where(stray, 0, np.minimum(label, len(labels) - 1))]
        name = self._instances.range_name[source].astype(np.int64)
        marked = np.isin(name, [*self._meaning.texts, *self._compiled]) & (name >= 0)
        of_marker = 2 + 2 * name + (source != instance)
        of_label = -(2 + 2 * label + stray)
        result: Int64 = np.where(
            position >= 0, is_transposed.astype(np.int64), np.where(marked, of_marker, of_label)
        )
        return result

    def unit(self, calls: CountedCalls, row: int, output: Shape | None) -> CostUnit:
        """The unit of the call in a row; ``output``: sizes of its output, None: unknown."""
        kind = int(calls.kind[row])
        if kind in (COPY, SET):
            moved = int(calls.num_bytes[row])
            cost = _copied(int(calls.detail[row]), moved) if kind == COPY else _set(moved)
            return cost if moved >= 0 else replace(cost, num_bytes=None, reason=_NO_BYTES)
        if kind == GRAPH:
            return CostUnit("graph", reason=_IN_GRAPH, hides_matrix=True)
        is_outside = calls.position[row] < 0
        unit = (self._outside if is_outside else self._counted)(calls, row, output)
        hides = unit.flops is None and bool(calls.multiplies[row])
        return replace(unit, hides_matrix=hides or (unit.is_matrix and not unit.precision))

    def _counted(self, calls: CountedCalls, row: int, output: Shape | None) -> CostUnit:
        code, range_name = int(calls.shapes[row]), int(calls.name[row])
        text = self._profile.shape_texts[code] if code >= 0 else ""
        name = self._meaning.labels[int(self._meaning.label[range_name])]
        types = self._types_of(calls, row)
        instance = np.array([calls.instance[row]])
        transposed = self.context(instance, np.zeros(1, dtype=np.int64))[0] == 1
        call = recorded_call(self._profile, name, range_name, code)
        recorded = call.recorded_types
        read, write = self._element_sizes(types, *recorded)
        step, experts = int(calls.step[row]), int(calls.experts[row])
        call = replace(
            call,
            read_bytes=read,
            write_bytes=write,
            output=output,
            context="conv_transpose" if transposed else "",
            one_gradient=int(calls.gradients[row]) == 1,
            lists=types.lists,
            is_causal=types.is_causal,
            lengths=read_lengths(self._profile.range_names[step]) if step >= 0 else None,
            inner=inner_tensors(self._profile, self._nested, experts)
            if experts >= 0 and self._nested is not None
            else (),
        )
        cost = count(call) if text else UNKNOWN
        reason = NO_SIZES if not text else _reason(call, cost)
        precision = self._precision(
            cost,
            types,
            # Libraries of serving engines multiply narrow types with Tensor Cores only, and the
            # names of their kernels do not say so.
            uses_tc=bool(calls.uses_tc[row]) or (element_size(cost.operand) or 4) < 4,
            marker_type=cost.operand or recorded[0],
        )
        is_network = is_collective(name, call.full_name)
        return _unit(call, text, cost, NETWORK if is_network else precision, reason)

    def _outside(self, calls: CountedCalls, row: int, output: Shape | None) -> CostUnit:
        """The unit of work outside ranges with a formula: described by a marker, or unknown."""
        instance = int(self.described_by(np.array([calls.instance[row]]))[0])
        label = int(self._instances.label[instance])
        stray = self._instances.origin[instance] == Origin.STRAY
        names = self._profile.strings if stray else self._meaning.labels
        name = names[label] if 0 <= label < len(names) else ""
        range_name = int(self._instances.range_name[instance])
        text = self._meaning.texts.get(range_name)
        kernel = self._meaning.compiled.get(range_name)
        if bool(calls.communicates[row]):
            return CostUnit("communication", precision=NETWORK, reason=_BETWEEN_GPUS)
        if kernel is not None and (kernel.num_bytes is not None or kernel.no_bytes):
            moved = kernel.num_bytes
            reason = kernel.no_bytes or _FUSED
            return CostUnit(name, num_bytes=moved, precision=VECTOR, reason=reason)
        if text is None or stray:
            in_no_op = self._instances.origin[instance] in (Origin.STRAY, Origin.GROUP)
            # XLA's ops, for one, are recorded by name only.
            without_sizes = _NO_FORMULA if any(self._profile.shape_texts) else NO_SIZES
            reason = _NO_OPERATOR if in_no_op else without_sizes
            return CostUnit(name, reason=NOT_RECORDED if is_generated(name) else reason)
        types = self._types_of(calls, row)
        outputs = sizes_of(text.output_shapes)
        call = OpCall(
            name,
            sizes_of(text.input_shapes),
            *self._element_sizes(types, *[text.data_type.removeprefix("torch.")] * 2),
            outputs[0] if outputs and outputs[0] else output,
            one_gradient=int(calls.gradients[row]) == 1,
            is_causal=types.is_causal,
        )
        cost = count_marked(call, backward=instance != int(calls.instance[row]))
        precision = self._precision(
            cost, types, uses_tc=bool(calls.uses_tc[row]), marker_type=text.data_type
        )
        return _unit(call, text.input_shapes, cost, precision, _reason(call, cost))

    def _types_of(self, calls: CountedCalls, row: int) -> ElementTypes:
        code = int(calls.types[row])
        return self._kernels.types[code] if code >= 0 else ElementTypes()

    def _element_sizes(
        self, types: ElementTypes, read_type: str = "", write_type: str = ""
    ) -> tuple[float | None, float | None]:
        """Sizes of elements read and written, from the kernels or else as they were recorded."""
        read = SIZES.get(types.read, element_size(read_type))
        write = SIZES.get(types.write, element_size(write_type))
        if types.is_cast and not types.read and types.write == "float32":
            read = self._cast_read
        return read, write

    @staticmethod
    def _precision(cost: Cost, types: ElementTypes, *, uses_tc: bool, marker_type: str = "") -> str:
        if not cost.is_matrix:
            return VECTOR
        kind = types.read or marker_type.removeprefix("torch.")
        return (_TENSOR_PRECISION if uses_tc else _SCALAR_PRECISION).get(plain_type(kind), "")


def _set(num_bytes: int) -> CostUnit:
    return CostUnit("set on the device", flops=0, num_bytes=num_bytes, precision=VECTOR)


def _copied(copy_kind: int, num_bytes: int) -> CostUnit:
    """A copy on the device reads and writes its bytes; one over the bus moves them once."""
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
    is_message = is_collective(call.name, call.full_name) and bool(call.shapes)
    needs = call.name in NEEDS_OUTPUT or call.name.startswith("conv") or "pool" in call.name
    if cost.reason or (cost.flops is not None and cost.num_bytes is not None):
        return cost.reason
    if cost.num_bytes is not None:
        return _BETWEEN_GPUS if is_message else _BY_VALUES
    if is_message or (
        cost.flops is not None and (call.output is not None or call.name != "index_select")
    ):
        return _NO_TYPE
    if call.output is None and needs:
        return _NO_OUTPUT
    has_formula = formula_of(call.name, call.full_name) is not None
    return NO_SIZES if not call.shapes else _FEW_SIZES if has_formula else _NO_FORMULA
