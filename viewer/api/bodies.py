"""Serializers of request bodies. All refuse unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn, cast
from unicodedata import category

from rest_framework.exceptions import ParseError
from rest_framework.fields import empty
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


def _is_plain(text: str) -> bool:
    return not any(category(character) in _NOT_PLAIN for character in text)


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


class LineField(CharField):
    """A line of text without surrounding space; unless it is required, null means empty."""

    def __init__(self, *, required: bool = False, **kwargs: Any) -> None:
        kwargs = {"allow_blank": True, **kwargs}
        super().__init__(
            required=required, allow_null=not required, trim_whitespace=False, **kwargs
        )

    def fail(self, key: str, **kwargs: Any) -> NoReturn:
        """Refuse a required text that is missing or null."""
        _refuse(self, say("{name} must be a text.", name=self.field_name))

    def to_internal_value(self, data: object) -> str:
        """Check type, length and characters."""
        if self.required and not isinstance(data, str):
            self.fail("invalid")
        if not isinstance(data, str) or len(data) > (self.max_length or MAX_TEXT):
            message = say(
                "{name} must be a text of at most {longest} characters.",
                name=self.field_name,
                longest=self.max_length,
            )
            _refuse(self, message)
        if not _is_plain(data):
            _refuse(self, say("{name} must be one line of plain text.", name=self.field_name))
        return data.strip()

    def run_validators(self, value: object) -> None:
        """Skip the validators, which only document the limits that are checked above."""


class KeyNodeField(LineField):
    """The name of an op or a range, which may hold any character."""

    def to_internal_value(self, data: object) -> str:
        """Check the type and the length."""
        if not isinstance(data, str) or len(data) > MAX_TEXT:
            _refuse(self, say("{name} must be a text.", name=self.field_name))
        return data.strip()


class IterationField(IntegerField):
    """The index of an iteration."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, allow_null=True, min_value=0, **kwargs)

    def to_internal_value(self, data: object) -> int:
        """Check that it is a whole number in JSON: no text, no boolean, no fraction."""
        if type(data) is not int or not 0 <= data <= MAX_INTEGER:
            _refuse(self, say("{name} must be a whole number from 0 on.", name=self.field_name))
        return data


class ModeField(ChoiceField):
    """How to read ranges; ``auto`` if it is missing or empty."""

    def run_validation(self, data: object = empty) -> str:
        """Check that there is such a mode."""
        if data is empty or not data:
            return Mode.AUTO.value
        if data not in tuple(Mode):
            raise InvalidValueError(
                say("There is no such mode."),
                hint=say("Known: {names}.", names=", ".join(Mode)),
                parameter=self.field_name,
            )
        return str(data)


class FilesField(ListField):
    """Rank files of one job: at least two different texts; null is the same as none."""

    def __init__(self, description: str) -> None:
        super().__init__(
            child=CharField(help_text=description, max_length=MAX_TEXT),
            required=False,
            allow_null=True,
            min_length=2,
        )

    def to_internal_value(self, data: object) -> list[str]:
        """Check number, types and texts."""
        texts = data if isinstance(data, list) else []
        fits = all(
            isinstance(text, str) and 0 < len(text) <= MAX_TEXT and _is_plain(text)
            for text in texts
        )
        if not fits or not 2 <= len(set(texts)) == len(texts) <= MAX_RANK_FILES:
            message = say(
                "{name} must be a list of at least two different texts, and of no more than "
                "{limit}.",
                name=self.field_name,
                limit=MAX_RANK_FILES,
            )
            _refuse(self, message)
        return texts


class RanksField(ListField):
    """Numbers of ranks; that there is one for each file is checked by the body."""

    child = IntegerField(
        help_text="Number of the first rank of each file; taken from the files if left out.",
        min_value=0,
        max_value=MAX_RANK,
    )

    def to_internal_value(self, data: object) -> list[int]:
        """Check types and limits."""
        ranks = data if isinstance(data, list) else []
        if not ranks or not all(type(rank) is int and 0 <= rank <= MAX_RANK for rank in ranks):
            refuse_ranks()
        return ranks


def refuse_ranks() -> NoReturn:
    """Refuse ranks that are not one number for each file."""
    raise InvalidValueError(
        say(
            "ranks must be a list of different whole numbers from 0 to {limit}, one for each file.",
            limit=MAX_RANK,
        ),
        parameter="ranks",
    )


class NewProfileSerializer(Body):
    """A profile to add: exactly one of path, upload, paths and uploads."""

    path = LineField(
        max_length=MAX_TEXT,
        help_text="A file in one of the folders that may be registered from; or a folder there, or "
        "a pattern (rank*.sqlite), which stands for the rank files of one job.",
    )
    upload = LineField(max_length=MAX_TEXT, help_text="The id of an upload, instead of a path.")
    paths = FilesField("Rank files of one job, which are joined.")
    uploads = FilesField("Ids of uploads of rank files, which are joined.")
    ranks = RanksField(required=False, allow_null=True)
    name = LineField(
        max_length=MAX_PROFILE_NAME,
        help_text="Name of the profile; the name that it contains if left out.",
    )
    mode = ModeField(
        choices=[mode.value for mode in Mode], required=False, help_text="How to read ranges."
    )

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
            refuse_ranks()
        return attrs

    @classmethod
    def read_new_profile(cls, request: Request) -> NewProfile:
        """The profile to add."""
        return NewProfile(**{name: value for name, value in cls.read(request).items() if value})


class NewUploadSerializer(Body):
    """Query parameters of an upload."""

    file_name = LineField(
        required=True,
        allow_blank=False,
        min_length=1,
        max_length=MAX_FILE_NAME,
        help_text="Name of the file; the suffix is that of its format; it may contain the rank.",
    )


class ProfileChangeSerializer(Body):
    """A change of a profile."""

    name = LineField(
        required=True,
        max_length=MAX_PROFILE_NAME,
        help_text="New name; empty: the name that the profile contains.",
    )


class FlagField(BooleanField):
    """A boolean of JSON."""

    def fail(self, key: str, **kwargs: Any) -> NoReturn:
        """Refuse null."""
        _refuse(self, say("{name} must be true or false.", name=self.field_name))

    def to_internal_value(self, data: object) -> bool:
        """Check that it is a boolean: no text, no number."""
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


class AggregationChangeSerializer(Body):
    """A change of an aggregation; what is left out stays as it is."""

    name = LineField(max_length=MAX_AGGREGATION_NAME, help_text="New name; empty: no name.")
    is_default = FlagField(required=False, help_text="Whether the profile is opened with it.")


MAX_PHASE: Final = 200


class NewAggregationSerializer(Body):
    """An aggregation to add."""

    key_node = KeyNodeField(
        max_length=MAX_TEXT,
        help_text="Op ID, op name or range name; empty: chosen from the profile.",
    )
    iter_start = IterationField(help_text="First iteration, inclusive.")
    iter_stop = IterationField(help_text="Last iteration, inclusive.")
    phase = LineField(
        max_length=MAX_PHASE,
        help_text="Only iterations of this phase, a name of phases/; empty or null: all.",
    )
    bare_step_ns = IterationField(
        help_text="What a step takes without profiling, by the program's own clock; 0 or null: "
        "unknown."
    )


MAX_WINDOW_STEPS: Final = 10_000


class CountField(IntegerField):
    """A whole number from 1 to a limit."""

    def __init__(self, limit: int, **kwargs: Any) -> None:
        super().__init__(min_value=1, max_value=limit, **kwargs)

    def fail(self, key: str, **kwargs: Any) -> NoReturn:
        """Refuse what is missing or null."""
        message = say(
            "{name} must be a whole number from 1 to {limit}.",
            name=self.field_name,
            limit=self.max_value,
        )
        _refuse(self, message)

    def to_internal_value(self, data: object) -> int:
        """Check that it is a whole number in JSON."""
        if type(data) is not int or not 1 <= data <= (self.max_value or 1):
            self.fail("invalid")
        return data


class NewWindowSerializer(Body):
    """A window of a job that stands by."""

    process = CountField(MAX_INTEGER, help_text="Number of the job, or of one of its processes.")
    steps = CountField(MAX_WINDOW_STEPS, required=False, default=40, help_text="Steps to record.")
    all_ranks = FlagField(
        required=False, help_text="Whether to record all its processes here; else the first rank."
    )
