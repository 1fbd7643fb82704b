"""Bodies of requests, read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggregator.errors import InvalidValueError, IterationRangeError
from aggregator.options import AggregationRequest
from aggregator.query.connection import ProfileDatabase
from aggregator.query.request import MAX_INTEGER
from aggregator.texts import say

_KEYS = ("key_node", "iter_start", "iter_stop")
_MAX_NAME = 4_000


def read_aggregation_request(body: Any, database: ProfileDatabase) -> AggregationRequest:
    """The aggregation that a body asks for.

    Whether the key node exists is for the engine to say, which knows ranges as well as ops; what
    cannot be right is refused here, before a job is made of it.

    Raises:
        InvalidValueError: Not an object, an unknown key, a value of a wrong type.
        IterationRangeError: A range that is reversed or beyond the iterations known.
    """
    if not isinstance(body, Mapping):
        raise InvalidValueError(say("The body must be a JSON object."))
    for key in body:
        if key not in _KEYS:
            raise InvalidValueError(
                say("There is no value named {key!r} here.", key=key),
                hint=say("Known: {names}.", names=", ".join(_KEYS)),
            )
    key_node = body.get("key_node") or ""
    if not isinstance(key_node, str) or len(key_node) > _MAX_NAME:
        raise InvalidValueError(say("key_node must be a text."), parameter="key_node")
    wanted = AggregationRequest(
        key_node=key_node.strip(),
        iter_start=_index(body, "iter_start"),
        iter_stop=_index(body, "iter_stop"),
    )
    _check_range(wanted, database)
    return wanted


def _index(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    # A bool is an int in Python, not in JSON.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INTEGER:
        raise InvalidValueError(
            say("{name} must be a whole number from 0 on.", name=name), parameter=name
        )
    return value


def _check_range(wanted: AggregationRequest, database: ProfileDatabase) -> None:
    start, stop = wanted.iter_start, wanted.iter_stop
    if start is not None and stop is not None and start > stop:
        raise IterationRangeError(
            say(
                "The range is reversed: it starts at {start} and stops at {stop}.",
                start=start,
                stop=stop,
            ),
            hint=say("iter_start must not be greater than iter_stop."),
        )
    last = _last_iteration(wanted.key_node, database)
    for name, value in (("iter_start", start), ("iter_stop", stop)):
        if last is not None and value is not None and value > last:
            raise IterationRangeError(
                say(
                    "{name} is {value}, and the last iteration of this key node is {last}.",
                    name=name,
                    value=value,
                    last=last,
                ),
                hint=say("Choose from 0 to {last}.", last=last),
                parameter=name,
            )


def _last_iteration(key_node: str, database: ProfileDatabase) -> int | None:
    """Last iteration that a key node gives, if an aggregation has used it already."""
    sql = (
        "SELECT MAX(i.iter_value) FROM view_iterations_all i "
        "JOIN view_aggregations a ON a.aggr_id = i.aggr_id WHERE a.key_node_name = :key_node"
    )
    if not key_node:
        return None
    value = database.rows(sql, {"key_node": key_node})[0][0]
    return None if value is None else int(value)
