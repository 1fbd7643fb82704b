"""Serializers that several replies use."""

from __future__ import annotations

from typing import Any

from rest_framework.serializers import CharField, DictField, ListField, Serializer


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


class FigureSerializer(Serializer[Any]):
    """A Plotly figure."""

    data = ListField(child=DictField())  # type: ignore[assignment]
    layout = DictField()
