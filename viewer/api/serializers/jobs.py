"""Serializers of jobs."""

from __future__ import annotations

from typing import Any

from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    FloatField,
    IntegerField,
    Serializer,
)

from viewer.api.serializers.shared import ErrorSerializer
from viewer.state.models import JobKind, JobState


class AggregationRequestSerializer(Serializer[Any]):
    """What a job was asked to aggregate."""

    key_node = CharField(help_text="Op ID, op name or range name; empty: chosen from the profile.")
    iter_start = IntegerField(help_text="First iteration, inclusive.", allow_null=True)
    iter_stop = IntegerField(help_text="Last iteration, inclusive.", allow_null=True)
    phase = CharField(help_text="Only iterations of this phase; empty: all.")
    bare_step_ns = IntegerField(
        help_text="Step without profiling that the user gave.", allow_null=True
    )


class RankFileSerializer(Serializer[Any]):
    """A rank file of an import that joins several."""

    file_name = CharField()
    rank = IntegerField(
        help_text="Number that the request gave it; null: taken from the file.", allow_null=True
    )
    state = ChoiceField(choices=["waiting", "importing", "done", "failed"])


class JobSerializer(Serializer[Any]):
    """An aggregation or an import that runs in the background."""

    id = CharField()
    kind = ChoiceField(choices=list(JobKind.values))
    profile_id = CharField(help_text="Profile that it works on; for an import: that it makes.")
    profile_name = CharField(help_text="Of an import, the name of the profile; may be empty.")
    state = ChoiceField(choices=list(JobState.values))
    phase = CharField(help_text="Phase of the work; empty before it begins.")
    progress_pct = FloatField()
    rows_per_s = FloatField(allow_null=True)
    eta_s = FloatField(help_text="Estimated time left, in seconds.", allow_null=True)
    message = CharField()
    error = ErrorSerializer(allow_null=True)
    aggregation_id = IntegerField(help_text="The aggregation that it made.", allow_null=True)
    result_profile_id = CharField(
        help_text="Profile that holds the result: another one if a database of NVIDIA's was "
        "converted.",
        allow_null=True,
    )
    is_cancel_requested = BooleanField()
    request = AggregationRequestSerializer()
    jobs_before = IntegerField(
        help_text="Number of jobs that begin before it while it waits; only at the job's own "
        "address.",
        allow_null=True,
    )
    files = RankFileSerializer(many=True)
    created_at = CharField()
    started_at = CharField(allow_null=True)
    finished_at = CharField(allow_null=True)
