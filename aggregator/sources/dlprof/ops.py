"""Ops and their executions in a DLProf database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aggregator.profile.arrays import row_codes, rows_of
from aggregator.profile.profile import DEFAULT_DOMAIN, ProfileWarning
from aggregator.profile.recorded import RecordedOp, RecordedShapes
from aggregator.sources.dlprof.tables import UNKNOWN, DlprofTables
from aggregator.system.untrusted_json import read_list
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.profile.arrays import Int32, Int64

UNASSOCIATED, NOT_ELIGIBLE = 2, 3
"""DLProf's ``tc_support_status``: work outside every op; an op that cannot use Tensor Cores."""
NO_OP = "unknown"
"""Type of the op for events whose op the database does not have."""

_TEXT_COLUMNS = ("op_id", "op_name", "stack_trace")
_CODE_COLUMNS = (
    *("id", "domain_id", "op_id_id", "op_type_id", "data_type_id", "direction_id"),
    *("data_format_id", "output_format_id", "parameters_format_id", "tc_support_status"),
)
_INSTANCE_COLUMNS = (
    *("read_only_ops_id", "cpu_start", "cpu_stop", "process_id", "thread_id"),
    *("input_names_id", "input_shapes_id", "output_shapes_id", "parameters_id"),
)
_SHAPE_COLUMNS = ("input_names_id", "input_shapes_id", "output_shapes_id", "parameters_id")
_FORMAT_COLUMNS = ("data_format_id", "output_format_id", "parameters_format_id")


@dataclass
class OpRows:
    """The ops of the default domain and their executions."""

    ids: Int64  # Row ids of the ops in the database; the last is ``UNKNOWN`` if events lack theirs.
    ops: list[RecordedOp]  # The ops.
    other_domains: Int64  # Row ids of ops of other domains.
    instances: dict[str, Int64]  # Integer columns of the executions; ``op`` is a row of ``ops``.
    shapes: list[RecordedShapes]  # Distinct shapes.
    shape_of: Int32  # Row of ``shapes`` per execution.

    def rows(self, ids: Int64) -> Int32:
        """Return the row of the op of each id; ids without an op share an added op."""
        found = rows_of(self.ids, ids)
        lost = (found == UNKNOWN) & ~np.isin(ids, self.other_domains)
        if lost.any():
            found[lost] = self._unknown_op()
        return found

    def _unknown_op(self) -> int:
        if len(self.ops) == len(self.ids):
            name = f"unassociated_{NO_OP}"
            self.ops.append(RecordedOp(f"{NO_OP.upper()}_1", name, NO_OP, "", "", "", UNASSOCIATED))
        return len(self.ops) - 1


def read_ops(
    tables: DlprofTables, dictionary: dict[int, str], warnings: list[ProfileWarning]
) -> OpRows:
    """Read the ops; those of other NVTX domains are left out.

    DLProf up to 1.6 also analyzed custom domains; the default domain holds all the work.
    """
    codes = tables.ints("read_only_ops", _CODE_COLUMNS)
    texts = tables.texts("read_only_ops", _TEXT_COLUMNS)
    own = np.isin(codes["domain_id"], _default_domains(tables, dictionary, codes["domain_id"]))
    if not own.any():  # no row of the domains has these numbers
        own[:] = True
    if count := int(np.count_nonzero(~own)):
        text = say("ops of custom NVTX domains were left out; the default domain holds all work.")
        warnings.append(ProfileWarning("OTHER_DOMAINS", text, count))
    rows = np.flatnonzero(own)
    ops = _with_unique_ids([_op(codes, texts[row], dictionary, row) for row in rows.tolist()])
    result = OpRows(codes["id"][rows], ops, codes["id"][~own], {}, [], np.empty(0, np.int32))
    _add_instances(tables, result, dictionary, {name: codes[name][rows] for name in codes})
    return result


def _with_unique_ids(ops: list[RecordedOp]) -> list[RecordedOp]:
    """Return the ops with unique Op IDs: of several with the same one, the later get another."""
    seen: set[str] = set()
    result = []
    for number, op in enumerate(ops):
        op_id = op.op_id if op.op_id not in seen else f"{op.op_id}_DUPLICATE_{number}"
        seen.add(op_id)
        result.append(op if op_id == op.op_id else replace(op, op_id=op_id))
    return result


def _default_domains(
    tables: DlprofTables, dictionary: dict[int, str], present: Int64
) -> list[int] | Int64:
    """Return the row ids of the default domain; all that are present if its name is not found."""
    domains = tables.ints("read_only_domains", ("id", "domain_name_id"))
    pairs = zip(domains["id"].tolist(), domains["domain_name_id"].tolist(), strict=True)
    found = [domain for domain, name in pairs if dictionary.get(name) == DEFAULT_DOMAIN]
    return found or np.unique(present)


def _op(
    codes: dict[str, Int64], texts: tuple[str, ...], dictionary: dict[int, str], row: int
) -> RecordedOp:
    def word(column: str) -> str:
        return dictionary.get(int(codes[column][row]), "")

    op_id, op_name, stack_trace = texts
    status = int(codes["tc_support_status"][row])
    return RecordedOp(
        op_id=op_id or word("op_id_id") or f"OP_{int(codes['id'][row])}",
        op_name=op_name,
        op_type=word("op_type_id"),
        direction=word("direction_id"),
        data_type=word("data_type_id"),
        stack_trace=stack_trace,
        tc_support_status=NOT_ELIGIBLE if status == UNKNOWN else status,
    )


def _add_instances(
    tables: DlprofTables, result: OpRows, dictionary: dict[int, str], formats: dict[str, Int64]
) -> None:
    raw = tables.ints("read_only_op_instances", _INSTANCE_COLUMNS)
    op = result.rows(raw["read_only_ops_id"])
    kept = np.flatnonzero(op != UNKNOWN)
    raw = {name: column[kept] for name, column in raw.items()}
    raw["op"] = op[kept].astype(np.int64)
    result.instances = raw
    known = np.append(
        np.stack([formats[name] for name in _FORMAT_COLUMNS]), [[UNKNOWN]] * 3, axis=1
    )
    of_op = {
        name: known[position, np.minimum(raw["op"], known.shape[1] - 1)]
        for position, name in enumerate(_FORMAT_COLUMNS)
    }
    columns = (*(raw[name] for name in _SHAPE_COLUMNS), *of_op.values())
    first, result.shape_of = row_codes(*columns)
    for row in first.tolist():
        words = [dictionary.get(int(raw[name][row]), "") for name in _SHAPE_COLUMNS]
        letters = [dictionary.get(int(of_op[name][row]), "") for name in _FORMAT_COLUMNS]
        result.shapes.append(
            shape_row(words[0], words[1], words[2], words[3], (letters[0], letters[1], letters[2]))
        )


def shape_row(
    names: str, inputs: str, outputs: str, parameters: str, formats: tuple[str, str, str]
) -> RecordedShapes:
    """Return the texts of one execution.

    Args:
        names: JSON list of the inputs' names; mostly empty ones.
        inputs: JSON list of the inputs' shapes.
        outputs: JSON list of the outputs' shapes.
        parameters: JSON list of parameters.
        formats: Dimension names of inputs, outputs and parameters: ``N,C,H,W;K,C,R,S``.
    """
    return RecordedShapes(
        inputs=shape_list(inputs, formats[0], names),
        outputs=shape_list(outputs, formats[1]),
        parameters=shape_list(parameters, formats[2]),
    )


def shape_list(shapes_json: str, dimensions: str, names_json: str = "") -> str:
    """Split ``<N:32, C:3, H:32, W:32>; <K:6, C:3, R:3, S:3>; <6>``; empty if not recorded."""
    shapes = read_list(shapes_json)
    letters = [part.split(",") for part in dimensions.split(";")] if dimensions else []
    names = read_list(names_json)
    texts = []
    for position, shape in enumerate(shapes):
        sizes = shape if isinstance(shape, list) else [shape]
        own = letters[position] if position < len(letters) else []
        if len(own) == len(sizes) and all(own):
            text = ", ".join(f"{name}:{size}" for name, size in zip(own, sizes, strict=True))
        else:
            text = ", ".join(str(size) for size in sizes)
        name = str(names[position]) if position < len(names) and names[position] else ""
        texts.append(f"{name}: <{text}>" if name else f"<{text}>")
    return "; ".join(texts)
