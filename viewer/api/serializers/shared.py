"""Serializers that several replies use, and those of values and exports of tables."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework.serializers import (
    BooleanField,
    CharField,
    DictField,
    IntegerField,
    JSONField,
    ListField,
    Serializer,
)


class ErrorSerializer(Serializer[Any]):
    """The one error shape."""

    code = CharField(help_text="Stable name for scripts.")
    message = CharField(help_text="One sentence for a person.")
    hint = CharField(help_text="What to do about it; may be empty.")
    details = DictField(help_text="Further values for scripts.")


class UnknownField(DictField):
    """Reasons of the values of a reply that are null."""

    def __init__(self) -> None:
        text = "Why a field is null, by the field's name; * stands for all of them."
        super().__init__(child=CharField(), help_text=text)


@extend_schema_field({"type": ["string", "number", "boolean", "null"]})
class AnyValueField(JSONField):
    """A value of a column of any kind."""


class DistinctValueSerializer(Serializer[Any]):
    """A value of a column."""

    value = AnyValueField()
    count = IntegerField()


class DistinctValuesSerializer(Serializer[Any]):
    """Values of a column, most frequent first."""

    column = CharField()
    is_truncated = BooleanField(help_text="Whether there are more values than are listed.")
    results = DistinctValueSerializer(many=True)


class ExportSerializer(Serializer[Any]):
    """A table as a JSON file."""

    profile = CharField()
    table = CharField()
    aggregation_id = IntegerField()
    domain = CharField()
    columns = ListField(child=CharField())
    results = ListField(child=DictField())
