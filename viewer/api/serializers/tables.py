"""Serializers of values of a column and of exports."""

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
