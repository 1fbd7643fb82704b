"""Serializers of the timeline."""

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

from viewer.api.serializers.shared import UnknownField


class ScaleSerializer(Serializer[Any]):
    """What the rows of a counter's items mean: values, of joined samples the largest."""

    unit = CharField(help_text="bytes or percent.")
    step = IntegerField(help_text="A row is so many units; percent in hundredths.")
    most = IntegerField(help_text="Largest row.")


class LaneSerializer(Serializer[Any]):
    """A row of a timeline."""

    key = CharField(help_text="Its name in the address of its items.")
    kind = CharField(
        help_text="iterations, key (node), advice, path (the critical one), idle, work (of a GPU), "
        "modules, ops, loader, calls, waits (calls that block) or counter."
    )
    group = CharField(help_text="The GPU or thread that it belongs to.")
    title = CharField(help_text="Empty: it continues the lane before.")
    num_events = IntegerField(
        allow_null=True, help_text="null: the lane is computed when its tiles are asked for."
    )
    busy_ns = IntegerField(allow_null=True, help_text="Sum of the durations of its events.")
    scale = ScaleSerializer(allow_null=True, help_text="Of a counter; null: it is none.")


class TimelineLabelsSerializer(Serializer[Any]):
    """What events are: columns of one length. Tiles have indices into them."""

    name = ListField(child=IntegerField(), help_text="Index into names.")
    category = ListField(child=IntegerField(), help_text="As in the items of a timeline.")
    op = ListField(child=IntegerField(), help_text="Index of the op's id in names; -1: none.")
    op_type = ListField(child=IntegerField(), help_text="Index of its type in names; -1: none.")


class TimelineSerializer(Serializer[Any]):
    """The lanes of an aggregation's timeline."""

    version = CharField(help_text="Changes with the profile; tiles are asked for with it.")
    tile_bins = IntegerField(help_text="Bins of a tile.")
    names = ListField(child=CharField())
    labels = TimelineLabelsSerializer()
    start_ns = IntegerField(help_text="First event.", allow_null=True)
    stop_ns = IntegerField(help_text="End of the last event.", allow_null=True)
    lanes = LaneSerializer(many=True)
    unknown = UnknownField()


class RangeCategorySerializer(Serializer[Any]):
    """Work of one kind in a range of time."""

    category = IntegerField(
        help_text="0 Tensor Core kernel, 1 other kernel, 2 communication, 3 copy, 4 set, "
        "5 CUDA graph, -1 none."
    )
    num_events = IntegerField()
    time_ns = IntegerField(help_text="Sum of their durations within the range.")


class RangeOpSerializer(Serializer[Any]):
    """Work of one op in a range of time."""

    op_id = CharField()
    num_events = IntegerField()
    time_ns = IntegerField(help_text="Sum of their durations within the range.")


class RangeEventSerializer(Serializer[Any]):
    """An event of a timeline."""

    lane = CharField()
    row_id = IntegerField(help_text="Row of the event in its table; 0: it has none.")
    name = CharField()
    op_id = CharField(allow_null=True)
    start_ns = IntegerField()
    duration_ns = IntegerField()


class RangeIterationsSerializer(Serializer[Any]):
    """Iterations in a range of time."""

    first = IntegerField()
    last = IntegerField()


class HitSerializer(RangeEventSerializer):
    """A selected event."""

    number = IntegerField(help_text="Its place among the selected events by start, from 0.")


class HitLaneSerializer(Serializer[Any]):
    """A lane with selected events."""

    key = CharField()
    num_events = IntegerField()


class TimelineHitsSerializer(Serializer[Any]):
    """Selected events."""

    count = IntegerField()
    is_listed = BooleanField(help_text="False: there are too many to step through.")
    time_ns = IntegerField(help_text="Sum of the durations of those that are listed.")
    lanes = HitLaneSerializer(many=True)
    event = HitSerializer(allow_null=True, help_text="The one that was asked for.")
    first = HitSerializer(allow_null=True)
    longest = HitSerializer(allow_null=True)
    median = HitSerializer(allow_null=True, help_text="The one of median duration.")


class RelatedEventSerializer(RangeEventSerializer):
    """An event that another one belongs to."""

    relation = CharField(
        help_text="launched by, launched, op (in which it was launched), forward or backward (the "
        "same call of the op in the other direction)."
    )
    category = IntegerField(
        help_text="0 Tensor Core kernel, 1 other kernel, 2 communication, 3 copy, 4 set, "
        "5 CUDA graph, -1 none."
    )
    op_type = CharField()


class TimelineEventSerializer(RangeEventSerializer):
    """One event; what is not known, or is not of its kind, is left out or null."""

    category = IntegerField(
        help_text="0 Tensor Core kernel, 1 other kernel, 2 communication, 3 copy, 4 set, "
        "5 CUDA graph, -1 none."
    )
    op_type = CharField()
    related = RelatedEventSerializer(many=True)
    op_name = CharField(required=False)
    module = CharField(required=False, help_text="Path of the op without its last part.")
    direction = CharField(required=False)
    data_type = CharField(required=False, help_text="Element type; empty: not recorded.")
    input_shapes = CharField(required=False, allow_null=True)
    output_shapes = CharField(required=False, allow_null=True)
    tc_eligible = BooleanField(required=False, help_text="Whether the op can use Tensor Cores.")
    tc_fit_reason = CharField(required=False, help_text="Why.")
    name_reason = CharField(required=False, help_text="How it is known that it is of the op.")
    place = IntegerField(required=False, help_text="Of the op by GPU time, from 1.")
    of_ops = IntegerField(required=False, help_text="Number of ops.")
    share_pct = FloatField(required=False, allow_null=True, help_text="Of the GPU time of all ops.")
    long_name = CharField(required=False, help_text="Full name of the kernel.")
    readable_name = CharField(required=False)
    source_ops = CharField(required=False, help_text="Ops that TorchInductor fused into it.")
    grid = CharField(required=False)
    block = CharField(required=False)
    uses_tc = BooleanField(required=False, allow_null=True)
    tc_evidence = CharField(required=False, help_text="What in the name of the kernel says so.")
    bytes = IntegerField(required=False, allow_null=True, help_text="Moved or set.")
    host_memory = CharField(required=False, help_text="pageable, pinned or empty.")
    api_start_ns = IntegerField(required=False, help_text="Start of the launching call. Unit: ns.")
    api_time_ns = IntegerField(required=False, help_text="Its duration; 0: not recorded.")
    correlation_id = IntegerField(required=False)
    gpu_time_ns = IntegerField(required=False, help_text="Of this execution of the op.")
    cpu_time_ns = IntegerField(required=False, help_text="Of this execution of the op.")
    value = IntegerField(required=False, help_text="Of a sample; percent in hundredths.")
    unit = CharField(required=False, help_text="Of a sample: bytes or percent.")


class TimelineRangeSerializer(Serializer[Any]):
    """Totals of a range of time."""

    start_ns = IntegerField()
    stop_ns = IntegerField()
    categories = RangeCategorySerializer(many=True, help_text="Work of GPUs, most time first.")
    ops = RangeOpSerializer(many=True, help_text="The ops with the most GPU time in the range.")
    iterations = RangeIterationsSerializer(
        allow_null=True, help_text="Those of which at least half lies in the range; null: none."
    )
    num_events = IntegerField(help_text="Events of all lanes asked for.")
    events = RangeEventSerializer(many=True, help_text="The longest of them.")
