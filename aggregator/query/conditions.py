"""Conditions of a list's filters as SQL; every value is a bound parameter."""

from __future__ import annotations

from typing import Any

from aggregator.query.request import Filter


def condition_sql(condition: Filter, prefix: str, params: dict[str, Any]) -> str:
    """A filter as SQL.

    Args:
        condition: The filter; its column's expression is what is compared.
        prefix: Begins the names of its parameters.
        params: Gets their values.
    """
    sql = condition.column.sql
    value = condition.values[0]
    params[prefix] = value
    match condition.operator:
        case "gte":
            return f"{sql} >= :{prefix}"
        case "lte":
            return f"{sql} <= :{prefix}"
        case "icontains":
            params[prefix] = contains(str(value))
            return f"{sql} LIKE :{prefix} ESCAPE '\\'"
        case "startswith":
            return f"substr({sql}, 1, length(:{prefix})) = :{prefix}"
        case "in":
            del params[prefix]
            names = [f"{prefix}_{index}" for index in range(len(condition.values))]
            params.update(zip(names, condition.values, strict=True))
            return f"{sql} IN ({', '.join(f':{name}' for name in names)})"
        case _:
            return f"{sql} = :{prefix}"


def contains(value: str) -> str:
    r"""The pattern of LIKE for a text that is contained, with ``\`` as escape."""
    escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
