"""Ops and their executions in a DLProf database."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aggregator.given import GivenOp, GivenShapes
from aggregator.profile import DEFAULT_DOMAIN, ProfileWarning
from aggregator.sources.dlprof_shapes import shape_row
from aggregator.sources.dlprof_tables import UNKNOWN, DlprofTables, row_codes, rows_of
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.profile import Int32, Int64

UNASSOCIATED, NOT_ELIGIBLE = 2, 3
"""DLProf's ``tc_support_status``: work outside every op; an op that cannot use Tensor Cores."""
NO_OP = "unknown"
"""Type of the op that stands for events whose op the database does not hold."""

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
    """The ops of the default domain and their executions.

    Attributes:
        ids: Row ids of the ops in the database; the last is ``UNKNOWN`` if events lack theirs.
        ops: The ops.
        other_domains: Row ids of ops of other domains.
        instances: Integer columns of the executions; ``op`` is a row of ``ops``.
        shapes: Distinct shapes.
        shape_of: Row of ``shapes`` per execution.
    """

    ids: Int64
    ops: list[GivenOp]
    other_domains: Int64
    instances: dict[str, Int64]
    shapes: list[GivenShapes]
    shape_of: Int32

    def rows(self, ids: Int64) -> Int32:
        """Row of the op of each id; an id that leads nowhere becomes an op of its own."""
        found = rows_of(self.ids, ids)
        lost = (found == UNKNOWN) & ~np.isin(ids, self.other_domains)
        if lost.any():
            found[lost] = self._unknown_op()
        return found

    def _unknown_op(self) -> int:
        if len(self.ops) == len(self.ids):
            name = f"unassociated_{NO_OP}"
            self.ops.append(GivenOp(f"{NO_OP.upper()}_1", name, NO_OP, "", "", "", UNASSOCIATED))
        return len(self.ops) - 1


def read_ops(
    tables: DlprofTables, dictionary: dict[int, str], warnings: list[ProfileWarning]
) -> OpRows:
    """Read the ops; those of other NVTX domains are left out.

    DLProf up to 1.6 analysed custom domains beside the default one, which holds all the work.
    """
    codes = tables.ints("read_only_ops", _CODE_COLUMNS)
    texts = tables.texts("read_only_ops", _TEXT_COLUMNS)
    own = np.isin(codes["domain_id"], _default_domains(tables, dictionary, codes["domain_id"]))
    if not own.any():  # the numbers of domains lead nowhere
        own[:] = True
    if count := int(np.count_nonzero(~own)):
        text = say("ops of custom NVTX domains were left out; the default domain holds all work.")
        warnings.append(ProfileWarning("OTHER_DOMAINS", text, count))
    rows = np.flatnonzero(own)
    ops = _with_unique_ids([_op(codes, texts[row], dictionary, row) for row in rows.tolist()])
    result = OpRows(codes["id"][rows], ops, codes["id"][~own], {}, [], np.empty(0, np.int32))
    _add_instances(tables, result, dictionary, {name: codes[name][rows] for name in codes})
    return result


def _with_unique_ids(ops: list[GivenOp]) -> list[GivenOp]:
    """The same ops; of several with one Op ID the later ones get another."""
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
    """Row ids of the default domain; all that are present if there is no telling."""
    domains = tables.ints("read_only_domains", ("id", "domain_name_id"))
    pairs = zip(domains["id"].tolist(), domains["domain_name_id"].tolist(), strict=True)
    found = [domain for domain, name in pairs if dictionary.get(name) == DEFAULT_DOMAIN]
    return found or np.unique(present)


def _op(
    codes: dict[str, Int64], texts: tuple[str, ...], dictionary: dict[int, str], row: int
) -> GivenOp:
    def word(column: str) -> str:
        return dictionary.get(int(codes[column][row]), "")

    op_id, op_name, stack_trace = texts
    status = int(codes["tc_support_status"][row])
    return GivenOp(
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
    key = row_codes({name: raw[name] for name in _SHAPE_COLUMNS} | of_op)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    for row in first.tolist():
        words = [dictionary.get(int(raw[name][row]), "") for name in _SHAPE_COLUMNS]
        letters = [dictionary.get(int(of_op[name][row]), "") for name in _FORMAT_COLUMNS]
        result.shapes.append(
            shape_row(words[0], words[1], words[2], words[3], (letters[0], letters[1], letters[2]))
        )
    result.shape_of = inverse.ravel().astype(np.int32)
