"""Tables as Arrow: each column with its type, its meaning as metadata, and null where unknown."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.request import parse_list_query
from aggregator.tables.spec import Column, Kind, TableSpec
from aggregator.tables.sql import read_columns


def to_arrow(
    data: AggregationData, spec: TableSpec, params: Mapping[str, str] | None = None
) -> pa.Table:
    """Return all rows of a table. A column that the database lacks is null in every row.

    ``params`` are ordering, search and filters, as in the query string of the API.
    """
    query = parse_list_query(spec, params or {})
    columns = read_columns(data.resolve(spec), query, data.database)
    size = max((len(values) for values in columns.values()), default=0)
    arrays = [
        pa.array(columns.get(column.name) or [None] * size, _type(column), from_pandas=False)
        for column in spec.columns
    ]
    schema = pa.schema(
        [
            pa.field(column.name, _type(column), metadata={"description": column.description})
            for column in spec.columns
        ],
        metadata={"title": spec.title, "aggregation": str(data.params["aggr_id"])},
    )
    return pa.Table.from_arrays(arrays, schema=schema)


def _type(column: Column) -> pa.DataType:
    if column.kind is Kind.BOOLEAN:
        return pa.bool_()
    if column.kind is Kind.NUMBER:
        return pa.int64() if column.integer else pa.float64()
    return pa.int64() if column.kind is Kind.IDENTIFIER and column.integer else pa.string()
