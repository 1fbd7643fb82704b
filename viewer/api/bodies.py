"""Serializers of request bodies. All refuse unknown keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NoReturn, cast
from unicodedata import category

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    Field,
    IntegerField,
    ListField,
    Serializer,
)

from aggregator.errors import InvalidValueError
from aggregator.options import Mode
from aggregator.tables.request import MAX_INTEGER
from aggregator.texts import say
from viewer.jobs.addition import MAX_RANK_FILES, NewProfile

MAX_TEXT = 4_000
MAX_PROFILE_NAME = 200
MAX_AGGREGATION_NAME = 80
MAX_FILE_NAME = 255
MAX_RANK = 1_000_000
MAX_PHASE = 200
MAX_WINDOW_STEPS = 10_000
#: Control characters, and halves of surrogate pairs, which UTF-8 cannot encode.
_NOT_PLAIN = frozenset({"Cc", "Cs"})


class ShallowJSONParser(JSONParser):
    """Refuses JSON that is nested deeper than Python's recursion limit."""

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Parse a request body."""
        try:
            return super().parse(stream, media_type, parser_context)
        except RecursionError as error:
            raise ParseError("nested too deep") from error


def _refuse(field: Field[Any, Any, Any, Any], message: str) -> NoReturn:
    raise InvalidValueError(message, parameter=field.field_name)


class Body(Serializer[Any]):
    """A request body: a JSON object in which every key is known."""

    @classmethod
    def read(cls, request: Request) -> dict[str, Any]:
        """Validate the body of a request.

        Raises:
            InvalidValueError: It is not an object, has an unknown key, or a value is not valid.
        """
        if not isinstance(request.data, Mapping):
            raise InvalidValueError(say("The body must be a JSON object."))
        body = cls(data=request.data)
        for key in request.data:
            if key not in body.fields:
                raise InvalidValueError(
                    say("There is no value named {key!r} here.", key=key),
                    hint=say("Known: {names}.", names=", ".join(body.fields)),
                )
        body.is_valid(raise_exception=True)
        return cast("dict[str, Any]", body.validated_data)


class _Reading:
    """Lets one function read the values of a field; its limits are for the documentation only."""

    read: ClassVar[Callable[[Any, object], object]]

    def to_internal_value(self, data: object) -> object:
        """Read a value of JSON, which DRF would also take as another type."""
        return self.read(data)

    def fail(self, key: str, **_: object) -> None:
        """Refuse what is missing or null."""
        self.read(None)

    def run_validators(self, value: object) -> None:
        """Check nothing: the function has."""


def _field(base: type[Any], read: Callable[[Any, object], object], **usual: Any) -> Any:
    kind: Any = type(base.__name__, (_Reading, base), {"read": read})
    return lambda meaning=None, **options: kind(help_text=meaning, **usual | options)


def _is_plain(text: str) -> bool:
    return not any(category(character) in _NOT_PLAIN for character in text)


def _read_line(field: CharField, data: object) -> str:
    """Read a line of text without surrounding space; unless it is required, null means empty."""
    if field.required and not isinstance(data, str):
        _refuse(field, say("{name} must be a text.", name=field.field_name))
    if not isinstance(data, str) or len(data) > (field.max_length or MAX_TEXT):
        message = say(
            "{name} must be a text of at most {longest} characters.",
            name=field.field_name,
            longest=field.max_length,
        )
        _refuse(field, message)
    if not _is_plain(data):
        _refuse(field, say("{name} must be one line of plain text.", name=field.field_name))
    return data.strip()


def _read_key_node(field: CharField, data: object) -> str:
    """Read the name of an op or a range, which may hold any character."""
    if not isinstance(data, str) or len(data) > MAX_TEXT:
        _refuse(field, say("{name} must be a text.", name=field.field_name))
    return data.strip()


def _read_iteration(field: IntegerField, data: object) -> int:
    if type(data) is not int or not 0 <= data <= MAX_INTEGER:
        _refuse(field, say("{name} must be a whole number from 0 on.", name=field.field_name))
    return data


def _read_mode(field: ChoiceField, data: object) -> str | None:
    if not data:
        return None
    if data not in tuple(Mode):
        raise InvalidValueError(
            say("There is no such mode."),
            hint=say("Known: {names}.", names=", ".join(Mode)),
            parameter=field.field_name,
        )
    return str(data)


def _read_files(field: ListField, data: object) -> list[str]:
    """Read the rank files of one job: at least two different texts."""
    texts = data if isinstance(data, list) else []
    fits = all(
        isinstance(text, str) and 0 < len(text) <= MAX_TEXT and _is_plain(text) for text in texts
    )
    if not fits or not 2 <= len(set(texts)) == len(texts) <= MAX_RANK_FILES:
        message = say(
            "{name} must be a list of at least two different texts, and of no more than {limit}.",
            name=field.field_name,
            limit=MAX_RANK_FILES,
        )
        _refuse(field, message)
    return texts


def _read_ranks(field: ListField, data: object) -> list[int]:
    """Read numbers of ranks; that there is one for each file is checked by the body."""
    ranks = data if isinstance(data, list) else []
    if not ranks or not all(type(rank) is int and 0 <= rank <= MAX_RANK for rank in ranks):
        _refuse_ranks()
    return ranks


def _refuse_ranks() -> NoReturn:
    raise InvalidValueError(
        say(
            "ranks must be a list of different whole numbers from 0 to {limit}, one for each file.",
            limit=MAX_RANK,
        ),
        parameter="ranks",
    )


def _read_flag(field: BooleanField, data: object) -> bool:
    if not isinstance(data, bool):
        _refuse(field, say("{name} must be true or false.", name=field.field_name))
    return data


def _read_count(field: IntegerField, data: object) -> int:
    if type(data) is not int or not 1 <= data <= (field.max_value or 1):
        message = say(
            "{name} must be a whole number from 1 to {limit}.",
            name=field.field_name,
            limit=field.max_value,
        )
        _refuse(field, message)
    return data


_OPTIONAL: Final = {"required": False, "allow_null": True}
_TEXT: Final = {**_OPTIONAL, "allow_blank": True, "trim_whitespace": False}
_REQUIRED: Final = {"required": True, "allow_null": False}

_line = _field(CharField, _read_line, **_TEXT)
_key_node = _field(CharField, _read_key_node, **_TEXT)
_iteration = _field(IntegerField, _read_iteration, min_value=0, **_OPTIONAL)
_count = _field(IntegerField, _read_count, min_value=1)
_flag = _field(BooleanField, _read_flag, required=False)
_mode = _field(ChoiceField, _read_mode, choices=[mode.value for mode in Mode], required=False)
_files = _field(ListField, _read_files, min_length=2, **_OPTIONAL)
_ranks = _field(ListField, _read_ranks, **_OPTIONAL)


class NewProfileSerializer(Body):
    """A profile to add: exactly one of path, upload, paths and uploads."""

    path = _line(
        "A file in one of the folders that may be registered from; or a folder there, or a pattern "
        "(rank*.sqlite), which stands for the rank files of one job.",
        max_length=MAX_TEXT,
    )
    upload = _line("The id of an upload, instead of a path.", max_length=MAX_TEXT)
    paths = _files(
        child=CharField(help_text="Rank files of one job, which are joined.", max_length=MAX_TEXT)
    )
    uploads = _files(
        child=CharField(
            help_text="Ids of uploads of rank files, which are joined.", max_length=MAX_TEXT
        )
    )
    ranks = _ranks(
        child=IntegerField(
            help_text="Number of the first rank of each file; taken from the files if left out.",
            min_value=0,
            max_value=MAX_RANK,
        )
    )
    name = _line(
        "Name of the profile; the name that it contains if left out.", max_length=MAX_PROFILE_NAME
    )
    mode = _mode("How to read ranges.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Check that there is one source, and a rank for each file."""
        sources = [attrs.get(name) for name in ("path", "paths", "upload", "uploads")]
        if sum(map(bool, sources)) != 1:
            raise InvalidValueError(
                say("Give exactly one of path, paths, upload and uploads."), parameter="path"
            )
        files = attrs.get("paths") or attrs.get("uploads") or ()
        ranks = attrs.get("ranks")
        if ranks is not None and not len(ranks) == len(set(ranks)) == len(files):
            _refuse_ranks()
        return attrs

    @classmethod
    def read_new_profile(cls, request: Request) -> NewProfile:
        """The profile to add."""
        return NewProfile(**{name: value for name, value in cls.read(request).items() if value})


class NewUploadSerializer(Body):
    """Query parameters of an upload."""

    file_name = _line(
        "Name of the file; the suffix is that of its format; it may contain the rank.",
        allow_blank=False,
        min_length=1,
        max_length=MAX_FILE_NAME,
        **_REQUIRED,
    )


class ProfileChangeSerializer(Body):
    """A change of a profile."""

    name = _line(
        "New name; empty: the name that the profile contains.",
        max_length=MAX_PROFILE_NAME,
        **_REQUIRED,
    )


class AggregationChangeSerializer(Body):
    """A change of an aggregation; what is left out stays as it is."""

    name = _line("New name; empty: no name.", max_length=MAX_AGGREGATION_NAME)
    is_default = _flag("Whether the profile is opened with it.")


class NewAggregationSerializer(Body):
    """An aggregation to add."""

    key_node = _key_node(
        "Op ID, op name or range name; empty: chosen from the profile.", max_length=MAX_TEXT
    )
    iter_start = _iteration("First iteration, inclusive.")
    iter_stop = _iteration("Last iteration, inclusive.")
    phase = _line(
        "Only iterations of this phase, a name of phases/; empty or null: all.",
        max_length=MAX_PHASE,
    )
    bare_step_ns = _iteration(
        "What a step takes without profiling, by the program's own clock; 0 or null: unknown."
    )


class NewWindowSerializer(Body):
    """A window of a job that stands by."""

    process = _count("Number of the job, or of one of its processes.", max_value=MAX_INTEGER)
    steps = _count("Steps to record.", max_value=MAX_WINDOW_STEPS, required=False, default=40)
    all_ranks = _flag("Whether to record all its processes here; else the first rank.")
