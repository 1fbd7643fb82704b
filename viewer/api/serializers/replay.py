"""Serializers of replays of the steps."""

from __future__ import annotations

from typing import Any

from rest_framework.serializers import (
    BooleanField,
    CharField,
    FloatField,
    IntegerField,
    ListField,
    Serializer,
)


class ErrorPctSerializer(Serializer[Any]):
    """Difference of the replayed and the measured steps."""

    median = FloatField()
    worst = FloatField()


class ReplaySerializer(Serializer[Any]):
    """How well the replay of the unchanged profile fits."""

    is_corrected = BooleanField(help_text="Whether it is without the costs of profiling.")
    measured_step_ns = IntegerField(help_text="Median of the measured steps.")
    replayed_step_ns = IntegerField(help_text="Median of the replayed steps.")
    error_pct = ErrorPctSerializer()
    unexplained_pct = FloatField(help_text="Share of the step that is unexplained idle time.")
    confidence = CharField(help_text="high, medium or low.")
    notes = ListField(child=CharField(), help_text="What lowers the confidence.")
    iterations = ListField(child=IntegerField(), help_text="The iterations that were replayed.")


class PathShareSerializer(Serializer[Any]):
    """Time on the critical path of one kind and owner."""

    kind = CharField(help_text="kernel, copy, call, cpu, loader, launch, gap, and so on.")
    owner = CharField(help_text="Op ID, or name of a call; empty: neither.")
    op_name = CharField(allow_null=True)
    ns = IntegerField(help_text="Mean time in a step.")
    share_pct = FloatField(help_text="Of the step.")


class ChainItemSerializer(Serializer[Any]):
    """An item of the chain of one step."""

    offset_ns = IntegerField(help_text="From the start of the step.")
    duration_ns = IntegerField()
    kind = CharField(help_text="kernel, copy, set, graph, communication, cpu or wait.")
    owner = CharField(help_text="Op ID; empty: of no op.")
    name = CharField(help_text="First kernel or call; empty: none.", allow_blank=True)
    op_name = CharField(allow_null=True)
    count = IntegerField(help_text="Kernels, or calls and the times between them.")


class CanReplaySerializer(Serializer[Any]):
    """Whether a profile can be replayed."""

    can_replay = BooleanField()
    reason = CharField(help_text="Why not; null: it can.", allow_null=True)


class CriticalPathSerializer(ReplaySerializer):
    """What the steps wait for."""

    critical_path = PathShareSerializer(many=True, help_text="Of all steps, longest first.")
    iteration_index = IntegerField(help_text="Iteration of the chain.")
    step_ns = IntegerField(help_text="Length of its step.")
    num_items = IntegerField(help_text="Items of the chain; the longest are listed.")
    chain = ChainItemSerializer(many=True, help_text="In order of time.")


class OpSensitivitySerializer(Serializer[Any]):
    """What an op that takes less time changes."""

    op_id = CharField()
    op_name = CharField()
    op_type = CharField()
    direction = CharField(allow_blank=True)
    own_ns = IntegerField(help_text="Mean time of its work on the GPU in a step.")
    path_ns = IntegerField(help_text="Of it on the critical path.")
    path_pct = FloatField(help_text="The same as a share of the median step.")
    slack_ns = IntegerField(
        allow_null=True, help_text="How much later its work may end for free; null: at any time."
    )
    step_ns_per_own_ns = FloatField(help_text="Time that a step gains when the op gains 1 ns.")


class OpSensitivitiesSerializer(ReplaySerializer):
    """What ops that take less time change."""

    ops = OpSensitivitySerializer(many=True, help_text="Those with most time on the path first.")


class WhatIfSerializer(ReplaySerializer):
    """The step with changes."""

    predicted_step_ns = IntegerField(help_text="Median step; null: no change.", allow_null=True)
    saving_ns = IntegerField(
        help_text="What the median step is known to save; null: no change, or the saved time is of "
        "the CPU and may be the profiler's, because the step without profiling is unknown.",
        allow_null=True,
    )
    interval_ns = ListField(
        child=IntegerField(), allow_null=True, help_text="10th and 90th percentile of the steps."
    )
    is_bound = BooleanField(allow_null=True, help_text="Whether it is only a bound.")


class ComparedRankSerializer(Serializer[Any]):
    """A rank compared with the others."""

    rank = IntegerField()
    late_ns = IntegerField(help_text="Mean own time in a step less the median of the others.")
    step_without_ns = IntegerField(
        allow_null=True, help_text="Step without its slowness, as step_ns; null: not replayed."
    )
    contribution_pct = FloatField(
        allow_null=True, help_text="Share of the step that its slowness costs; null: as above."
    )


class RankStepSerializer(Serializer[Any]):
    """A step of all ranks."""

    iteration_index = IntegerField()
    step_ns = IntegerField()
    late_ns = ListField(child=IntegerField(), help_text="Of each rank, in the order of ranks.")


class StragglersSerializer(Serializer[Any]):
    """Which rank makes the step slow."""

    verdict = CharField()
    confidence = CharField(help_text="high, medium or low.")
    notes = ListField(child=CharField(), help_text="What lowers the confidence.")
    slow_rank = IntegerField(allow_null=True, help_text="Null: none.")
    slow_iterations = ListField(
        child=IntegerField(), help_text="Iterations in which it is late; empty: in most or all."
    )
    step_ns = IntegerField(
        help_text="Measured step: the median, or the mean if there are slow_iterations."
    )
    mean_step_ns = IntegerField(help_text="Mean replayed step.")
    ideal_step_ns = IntegerField(help_text="Mean step with all ranks at the median.")
    slowdown = FloatField(help_text="The mean step over the ideal one.")
    error_pct = ErrorPctSerializer()
    ranks = ComparedRankSerializer(many=True)
    iterations = RankStepSerializer(many=True)
