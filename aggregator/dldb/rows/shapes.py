"""Shapes of an imported profile: their texts, and which ops fit Tensor Cores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from aggregator.correlate.op_table import BPROP
from aggregator.costs.formulas.call import sizes_of
from aggregator.costs.formulas.output_sizes import output_sizes
from aggregator.dldb.writer import Table
from aggregator.frameworks.eligibility import Eligibility, Ran, tensor_core_eligibility
from aggregator.frameworks.shapes import arguments_text, output_shape, parameters_text, shape_text
from aggregator.importing.imported import ImportedProfile
from aggregator.kernels.traits import kernel_traits
from aggregator.profile.arrays import Int32, Int64, dense_codes, first_rows
from aggregator.system.untrusted_json import read_object


def shape_texts(data: ImportedProfile) -> tuple[Int32, Table]:
    """Return the distinct shape texts, and the row of each instance, or 0 if there is none.

    PyTorch's own ``sizes`` are JSON already; a dictionary marker's are computed from its arguments.
    """
    instances, meaning = data.work.instances, data.meaning
    op_types = np.array([op.op_type for op in data.ops.ops], dtype=object)
    type_names, type_of_op = np.unique(op_types.astype(str), return_inverse=True)
    described = np.isin(instances.range_name, list(meaning.texts))
    shapes = _completed_shapes(instances.shapes, data.ops.op_of_instance, len(data.ops.ops))
    source = np.where(described, -2 - instances.range_name, shapes).astype(np.int64)
    module, modules = _module_codes(data)
    key = source * len(type_names) + type_of_op[data.ops.op_of_instance]
    key = np.where(described, key * modules, key * modules + module)
    has_any = source != -1
    unique, inverse = dense_codes(key[has_any])
    first = first_rows(inverse)
    rows = np.zeros(len(instances), dtype=np.int32)
    rows[has_any] = inverse + 1
    samples = np.flatnonzero(has_any)[first]
    texts = [_shape_row(data, int(sample), int(shapes[sample])) for sample in samples]
    columns: dict[str, list[Any]] = {
        "id": list(range(1, len(unique) + 1)),
        "input_shapes": [text[0] for text in texts],
        "parameters": [text[1] for text in texts],
        "output_shapes": [text[2] for text in texts],
    }
    return rows, Table("shape_texts", columns)


def _module_codes(data: ImportedProfile) -> tuple[Int64, int]:
    """Parameters recorded by the module around each instance, as codes; and the number of codes."""
    code_of_text = {"": 0}
    of_name = np.zeros(len(data.meaning.kind), dtype=np.int64)
    for row, text in data.meaning.module_texts.items():
        of_name[row] = code_of_text.setdefault(text.parameters, len(code_of_text))
    marker = data.work.instances.marker
    codes = np.zeros(len(marker), dtype=np.int64)
    inside = (marker >= 0) & (marker < len(of_name))
    codes[inside] = of_name[marker[inside]]
    return codes, len(code_of_text)


def _module_parameters(data: ImportedProfile, instance: int) -> dict[str, Any] | None:
    """Return the parameters recorded by the module around an instance, or None if there is none."""
    text = data.meaning.module_texts.get(int(data.work.instances.marker[instance]))
    return (read_object(text.parameters) or None) if text else None


def _arguments(data: ImportedProfile, shapes: int) -> dict[str, Any]:
    """Return the parameters that were recorded beside sizes, or an empty text if there is none."""
    recorded = data.profile.shape_parameters
    return read_object(recorded[shapes]) if 0 <= shapes < len(recorded) else {}


def _completed_shapes(shapes: Int32, op: Int32, num_ops: int) -> Int32:
    """Return shapes of executions that recorded none: the op's own, where all others had the same.

    The markers write shapes in the first steps only: it is what costs the most time.
    """
    known = shapes >= 0
    low = np.full(num_ops, np.iinfo(np.int32).max, dtype=np.int32)
    high = np.full(num_ops, -1, dtype=np.int32)
    np.minimum.at(low, op[known], shapes[known])
    np.maximum.at(high, op[known], shapes[known])
    of_op = np.where(low == high, high, -1).astype(np.int32)
    completed: Int32 = np.where(known, shapes, of_op[op]).astype(np.int32)
    return completed


def _shape_row(data: ImportedProfile, instance: int, shapes: int) -> tuple[str, str, str]:
    op_type = data.ops.ops[int(data.ops.op_of_instance[instance])].op_type
    text = data.meaning.texts.get(int(data.work.instances.range_name[instance]))
    if text is not None:
        output = shape_text(op_type, text.output_shapes, output=True)
        return shape_text(op_type, text.input_shapes), text.parameters, output
    recorded = data.profile.shape_texts[shapes]
    if own := _arguments(data, shapes):
        output = shape_text(op_type, _output(op_type, recorded, own), output=True)
        return shape_text(op_type, recorded), arguments_text(op_type, own), output
    parameters = _module_parameters(data, instance)
    output = shape_text(op_type, _output(op_type, recorded, parameters), output=True)
    return shape_text(op_type, recorded), parameters_text(op_type, parameters or {}), output


def _output(op_type: str, recorded: str, parameters: dict[str, Any] | None) -> str:
    """Return the output shape as JSON, or an empty text if it is unknown."""
    sizes = sizes_of(recorded)
    found = output_shape(op_type, sizes, parameters)
    if found is None and "pool" in op_type and parameters:
        found = output_sizes(op_type, sizes, parameters)
    return json.dumps([found], separators=(",", ":")) if found else ""


def recorded_shapes(data: ImportedProfile) -> list[tuple[str, str]]:
    """Input and output shapes of the first call of every op, as JSON; empty: not recorded.

    A backward op has its forward op's.
    """
    instances, shapes = data.work.instances, data.profile.shape_texts
    first = np.full(len(data.ops.ops), -1, dtype=np.int64)
    first[data.ops.op_of_instance[::-1]] = np.arange(len(instances))[::-1]
    result = []
    for row, op in enumerate(data.all_ops()):
        sample = int(first[row]) if row < len(first) else -1
        if op.direction == BPROP and op.forward >= 0:
            sample = int(first[op.forward])
        text = data.meaning.texts.get(int(instances.range_name[sample])) if sample >= 0 else None
        code = int(instances.shapes[sample]) if sample >= 0 else -1
        if text is not None:
            result.append((text.input_shapes, text.output_shapes))
        elif code >= 0:
            parameters = _arguments(data, code) or _module_parameters(data, sample)
            output = _output(op.op_type, shapes[code], parameters)
            result.append((shapes[code], output))
        else:
            result.append(("", ""))
    return result


def tensor_core_fits(data: ImportedProfile, recorded: list[tuple[str, str]]) -> list[Eligibility]:
    """Judge every op by its kernels and its first call's shapes."""
    known = [device.compute_capability for device in data.profile.devices]
    capability = next((value for value in known if value is not None), None)
    ops = data.all_ops()
    ran = np.zeros(len(ops), dtype=np.int64)
    pairs = data.rollup.op_kernels
    np.maximum.at(ran, pairs.op, _kinds_of_kernels(data)[pairs.kernel])
    np.maximum.at(ran, data.ops.op_of_instance[data.work.graphs.instance], Ran.UNRECORDED)
    return [
        tensor_core_eligibility(
            op.op_type, op.data_type, inputs, capability, by_type=op.tc_eligible, ran=Ran(kind)
        )
        for op, (inputs, _), kind in zip(ops, recorded, ran.tolist(), strict=True)
    ]


def _kinds_of_kernels(data: ImportedProfile) -> Int64:
    """Return ``Ran`` of each distinct kernel."""
    names, strings = data.kernel_names, data.profile.strings
    traits = [kernel_traits(strings[code]) for code in names.long.tolist()]
    may = np.array([trait.may_multiply for trait in traits], dtype=bool)
    clear = np.array([trait.is_clear for trait in traits], dtype=bool)
    kind = np.where(may, np.where(clear, Ran.PRODUCT, Ran.UNCLEAR), Ran.OTHER)
    return np.where(names.uses_tc, Ran.TENSOR_CORES, kind).astype(np.int64)
