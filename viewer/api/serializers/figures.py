"""Serializers of figures and of the verdict."""

from __future__ import annotations

from typing import Any

from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DictField,
    FloatField,
    ListField,
    Serializer,
)

from aggregator.advice.verdict import Limit


class FigureSerializer(Serializer[Any]):
    """A Plotly figure."""

    data = ListField(child=DictField())  # type: ignore[assignment]
    layout = DictField()


class VerdictSerializer(Serializer[Any]):
    """What limits a step."""

    limit = ChoiceField(choices=list(Limit))
    sentence = CharField(help_text="The verdict in one sentence; for an unknown one the reason.")
    share_pct = FloatField(help_text="Share of the step it is based on.", allow_null=True)
    advice = CharField(help_text="Name of the advice that explains it.", allow_null=True)
    is_corrected = BooleanField(help_text="Whether it is that of the step without profiling.")
    pace = CharField(help_text="That the CPU runs ahead of the GPU, if it does.", allow_null=True)
