"""Serializers of comparisons and of histories."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework.serializers import (
    BooleanField,
    CharField,
    FloatField,
    IntegerField,
    JSONField,
    ListField,
    Serializer,
)


class CompareCaptureSerializer(Serializer[Any]):
    """One capture of a side."""

    name = CharField()
    aggregation = IntegerField()
    iter_start = IntegerField(help_text="First compared iteration.")
    iter_stop = IntegerField(help_text="Last compared iteration, inclusive.")
    key_node = CharField()
    gpus = IntegerField(help_text="GPUs that ran work.")


_EXACT = "Exact: a whole number, or a decimal as text."
_SHOWN = "Rounded so that all rows of the comparison add up to the rounded step."


@extend_schema_field({"type": ["integer", "string"]})
class ExactField(JSONField):
    """A time that may have no finite binary form."""


class CompareSideSerializer(Serializer[Any]):
    """The base, or the new side."""

    step_ns = ExactField(help_text=f"Mean step as profiled. {_EXACT}")
    median_ns = IntegerField(help_text="Median step as profiled.")
    basis = CharField(help_text="bare or given: the step without profiling is known; or profiled.")
    unprofiled_ns = IntegerField(
        allow_null=True, help_text="Median step without profiling; null: unknown of a capture."
    )
    iterations = IntegerField(help_text="Compared steps.")
    captures = IntegerField()
    sources = CompareCaptureSerializer(many=True)


class CompareClassSerializer(Serializer[Any]):
    """Time of a class per step."""

    base_ns = ExactField(help_text=_EXACT)
    new_ns = ExactField(help_text=_EXACT)
    difference_ns = ExactField(help_text=_EXACT)

    def get_fields(self) -> dict[str, Any]:
        """With the field whose name is a keyword of Python."""
        return {"class": CharField(), **super().get_fields()}


class CompareCauseSerializer(Serializer[Any]):
    """The same time by what the GPU did or waited for."""

    cause = CharField()
    base_ns = ExactField(help_text=_EXACT)
    new_ns = ExactField(help_text=_EXACT)
    difference_ns = ExactField(help_text=_EXACT)


class CompareRowSerializer(CompareClassSerializer):
    """What one op owns of a class."""

    reason = CharField(help_text="Why the GPU was idle, or empty.")
    module = CharField()
    op = CharField()
    op_type = CharField()
    direction = CharField()
    match = CharField(help_text="same, aligned, module, only_base or only_new.")
    base_name = CharField(help_text="Path and name on the base side, where it differs.")
    verdict = CharField(help_text="faster, slower, same or cannot tell.")
    interval_ns = ListField(child=IntegerField(), allow_null=True, help_text="95 % interval.")
    within_pct = FloatField(allow_null=True)
    q_value = FloatField(allow_null=True)
    mann_whitney_p = FloatField(allow_null=True)
    base_kernels = ListField(child=CharField())
    new_kernels = ListField(child=CharField())


class NumberedCompareRowSerializer(CompareRowSerializer):
    """A row with its number in the comparison."""

    row = IntegerField(help_text="0: the largest difference.")
    path = CharField(help_text="Module and op, else reason or class, between slashes.")
    shown_base_us = IntegerField(help_text=_SHOWN)
    shown_new_us = IntegerField(help_text=_SHOWN)


class CompareModuleSerializer(Serializer[Any]):
    """The sum of all rows below a path."""

    path = CharField(help_text="As that of the rows; a slash for the whole step.")
    base_ns = FloatField(help_text="Mean per step on the base side.")
    new_ns = FloatField(help_text="Mean per step on the new side.")


class CompareModulesSerializer(Serializer[Any]):
    """Where the time of both sides is."""

    modules = CompareModuleSerializer(many=True)


class CompareSettingSerializer(Serializer[Any]):
    """Something else that differs."""

    key = CharField()
    base = CharField()
    new = CharField()


class ComparisonSummarySerializer(Serializer[Any]):
    """Why the step changed, without the rows."""

    base = CompareSideSerializer()
    new = CompareSideSerializer()
    difference_ns = ExactField(help_text=_EXACT)
    interval_ns = ListField(child=IntegerField(), allow_null=True, help_text="95 % interval.")
    covers_runs = BooleanField(help_text="Whether the interval covers changes from run to run.")
    verdict = CharField(help_text="faster, slower, same or cannot tell.")
    headline = CharField()
    notes = ListField(child=CharField())
    classes = CompareClassSerializer(many=True)
    causes = CompareCauseSerializer(many=True)
    rows = IntegerField(help_text="Number of rows.")
    setup = CompareSettingSerializer(many=True)


class ComparisonSerializer(ComparisonSummarySerializer):
    """Why the step changed."""

    rows = CompareRowSerializer(many=True)  # type: ignore[assignment]


class RowSamplesSerializer(Serializer[Any]):
    """A row's time in every step, one list per capture."""

    base_ns = ListField(child=ListField(child=FloatField()))
    new_ns = ListField(child=ListField(child=FloatField()))


class HistoryCaptureSerializer(Serializer[Any]):
    """One profile of a history."""

    name = CharField(help_text="Id of the profile.")
    started_at = CharField(allow_null=True, help_text="UTC; null: the profile holds no date.")
    aggregation = IntegerField()
    iterations = IntegerField()
    gpu = CharField()
    step_ns = FloatField(help_text="Mean step as profiled.")
    unprofiled_ns = IntegerField(
        allow_null=True, help_text="Median step without profiling; null: unknown."
    )
    basis = CharField(help_text="bare or given: the step without profiling is known; or profiled.")
    has_steps = BooleanField(help_text="False: iterations instead of steps.")


class HistoryChangeSerializer(Serializer[Any]):
    """Where a trend changed."""

    index = IntegerField(help_text="First capture after the change.")
    capture = CharField()
    before_ns = IntegerField()
    after_ns = IntegerField()
    p_value = FloatField()


class HistoryTrendSerializer(Serializer[Any]):
    """Mean time per step in every capture."""

    kind = CharField(help_text="step, unprofiled, class or op.")
    name = CharField()
    direction = CharField()
    values_ns = ListField(child=IntegerField())
    change_points = HistoryChangeSerializer(many=True)


class HistorySkippedSerializer(Serializer[Any]):
    """A profile that cannot be part of the history."""

    name = CharField()
    reason = CharField()


class HistorySerializer(Serializer[Any]):
    """Profiles by date, and their trends."""

    captures = HistoryCaptureSerializer(many=True)
    trends = HistoryTrendSerializer(many=True)
    skipped = HistorySkippedSerializer(many=True)
