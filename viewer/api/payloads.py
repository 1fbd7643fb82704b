"""Bodies of requests, read strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unicodedata import category

from aggregator.errors import InvalidValueError, IterationRangeError
from aggregator.options import AggregationRequest, Mode
from aggregator.query.connection import ProfileDatabase
from aggregator.query.request import MAX_INTEGER
from aggregator.texts import say
from viewer.profiles.addition import NewProfile
from viewer.profiles.rank_paths import MAX_RANK_FILES

_KEYS = ("key_node", "iter_start", "iter_stop")
_MAX_NAME = 4_000
MAX_PROFILE_NAME = 200
MAX_RANK = 1_000_000
#: Control characters, and halves of characters, which no UTF-8 can hold.
_UNFIT = frozenset({"Cc", "Cs"})


def read_aggregation_request(body: Any, database: ProfileDatabase) -> AggregationRequest:
    """The aggregation that a body asks for.

    Whether the key node exists is for the engine to say, which knows ranges as well as ops; what
    cannot be right is refused here, before a job is made of it.

    Raises:
        InvalidValueError: Not an object, an unknown key, a value of a wrong type.
        IterationRangeError: A range that is reversed or beyond the iterations known.
    """
    body = read_object(body, _KEYS)
    given = body.get("key_node")
    key_node = "" if given is None else given
    if not isinstance(key_node, str) or len(key_node) > _MAX_NAME:
        raise InvalidValueError(say("key_node must be a text."), parameter="key_node")
    wanted = AggregationRequest(
        key_node=key_node.strip(),
        iter_start=_index(body, "iter_start"),
        iter_stop=_index(body, "iter_stop"),
    )
    _check_range(wanted, database)
    return wanted


def read_new_profile(body: Any) -> NewProfile:
    """The profile that a body asks to add.

    Raises:
        InvalidValueError: Not an object, an unknown key, not exactly one of path, upload and their
            plurals, or a value of a wrong type.
    """
    body = read_object(body, ("path", "paths", "upload", "uploads", "ranks", "name", "mode"))
    path = read_text(body, "path", _MAX_NAME)
    upload = read_text(body, "upload", _MAX_NAME)
    paths, uploads = _texts(body, "paths"), _texts(body, "uploads")
    if sum(map(bool, (path, upload, paths, uploads))) != 1:
        raise InvalidValueError(
            say("Say one of path, paths, upload and uploads."), parameter="path"
        )
    mode = body.get("mode") or Mode.AUTO.value
    if mode not in tuple(Mode):
        raise InvalidValueError(
            say("There is no such mode."),
            hint=say("Known: {names}.", names=", ".join(Mode)),
            parameter="mode",
        )
    name = read_text(body, "name", MAX_PROFILE_NAME)
    ranks = _ranks(body, len(paths or uploads))
    return NewProfile(path, upload, name, str(mode), paths, uploads, ranks)


def _ranks(body: Mapping[str, Any], count: int) -> tuple[int, ...]:
    """Numbers of the ranks of several files, each once; empty: the body has none."""
    values = body.get("ranks")
    if values is None:
        return ()
    ranks = values if isinstance(values, list) else []
    fits = all(
        isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank <= MAX_RANK
        for rank in ranks
    )
    if not fits or not ranks or len(set(ranks)) != count or len(ranks) != count:
        raise InvalidValueError(
            say(
                "ranks must be a list of different whole numbers from 0 to {limit}, one for each "
                "file.",
                limit=MAX_RANK,
            ),
            parameter="ranks",
        )
    return tuple(ranks)


def _texts(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Rank files of one job: several, each once; empty: the body has no such list."""
    values = body.get(name)
    if values is None:
        return ()
    texts = values if isinstance(values, list) else []
    fits = all(
        isinstance(text, str)
        and 0 < len(text) <= _MAX_NAME
        and not any(category(character) in _UNFIT for character in text)
        for text in texts
    )
    if not fits or not 2 <= len(set(texts)) == len(texts) <= MAX_RANK_FILES:
        raise InvalidValueError(
            say(
                "{name} must be a list of at least two different texts, and of no more than "
                "{limit}.",
                name=name,
                limit=MAX_RANK_FILES,
            ),
            parameter=name,
        )
    return tuple(texts)


def read_new_name(body: Any) -> str:
    """The name that a body gives to a profile.

    Raises:
        InvalidValueError: None is given, or none that a profile can have.
    """
    body = read_object(body, ("name",))
    if not isinstance(body.get("name"), str):
        raise InvalidValueError(say("name must be a text."), parameter="name")
    return read_text(body, "name", MAX_PROFILE_NAME)


def read_object(body: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
    """A body that is an object of known names.

    Raises:
        InvalidValueError: It is not.
    """
    if not isinstance(body, Mapping):
        raise InvalidValueError(say("The body must be a JSON object."))
    for key in body:
        if key not in known:
            raise InvalidValueError(
                say("There is no value named {key!r} here.", key=key),
                hint=say("Known: {names}.", names=", ".join(known)),
            )
    return body


def read_text(body: Mapping[str, Any], name: str, longest: int) -> str:
    """A line of text; empty if it is left out.

    Raises:
        InvalidValueError: No text, too long, or with characters that no line of text has.
    """
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidValueError(
            say(
                "{name} must be a text of at most {longest} characters.", name=name, longest=longest
            ),
            parameter=name,
        )
    if any(category(character) in _UNFIT for character in value):
        raise InvalidValueError(
            say("{name} must be one line of plain text.", name=name), parameter=name
        )
    return value.strip()


def read_size(body: Mapping[str, Any], name: str) -> int:
    """A number of bytes.

    Raises:
        InvalidValueError: It is missing, or no whole number from 1 on.
    """
    value = _index(body, name)
    if not value:
        raise InvalidValueError(
            say("{name} must be a whole number from 1 on.", name=name), parameter=name
        )
    return value


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
