"""Serializers of recordings of GPU memory."""

from __future__ import annotations

from typing import Any

from rest_framework.serializers import CharField, IntegerField, ListField, Serializer

from viewer.api.serializers.shared import UnknownField


class MemoryKindSerializer(Serializer[Any]):
    """Bytes of one kind."""

    kind = CharField(
        help_text="parameter, gradient, optimizer state, activation, temporary, workspace or "
        "unknown."
    )
    bytes = IntegerField()


class MemoryKindAtPeakSerializer(MemoryKindSerializer):
    """Bytes of one kind at the peak."""

    evidence = CharField(help_text="Why most of them have that kind; empty: unknown.")


class MemoryStepSerializer(Serializer[Any]):
    """The peak of one step."""

    step = IntegerField(help_text="From 0.")
    event = IntegerField(help_text="First event after which most was allocated.")
    allocated_bytes = IntegerField()
    iteration_index = IntegerField(
        allow_null=True, help_text="Iteration of the profile then; null: none, or unknown."
    )


class MemoryLeakSerializer(Serializer[Any]):
    """What each step allocates and no later one releases."""

    name = CharField(help_text="Module and op.")
    bytes = IntegerField(help_text="All of it at the end.")
    steps = IntegerField(help_text="Number of steps that added to it.")


class MemoryRecordingSerializer(Serializer[Any]):
    """The memory of one GPU over a recording."""

    recording = IntegerField(help_text="Number of the recording, from 1.")
    device = IntegerField(help_text="Number of the GPU, as the recorded process counts.")
    recorded_by = CharField(help_text="snapshot, kineto or nsys.")
    source_file = CharField()
    axis = CharField(help_text="time_ns: time since the first event; event: number of the event.")
    stop = IntegerField(help_text="Place of the last event on the axis.")
    num_events = IntegerField()
    num_allocations = IntegerField()
    peak_allocated_bytes = IntegerField()
    peak_event = IntegerField(help_text="First event after which that was; -1: before all.")
    peak_reserved_bytes = IntegerField()
    end_allocated_bytes = IntegerField()
    end_active_bytes = IntegerField()
    end_reserved_bytes = IntegerField()
    unnamed_bytes_at_peak = IntegerField(help_text="Without a kind, or without module and op.")
    free_bytes = IntegerField(allow_null=True, help_text="In the allocator's cache at the end.")
    largest_free_bytes = IntegerField(allow_null=True, help_text="Largest block of them.")
    kinds = MemoryKindAtPeakSerializer(many=True, help_text="At the peak, the largest first.")
    num_steps = IntegerField()
    steps = MemoryStepSerializer(many=True, help_text="The first 1,000 of them.")
    leaks = MemoryLeakSerializer(many=True)


class MemorySerializer(Serializer[Any]):
    """The recordings of GPU memory of a profile."""

    recordings = MemoryRecordingSerializer(many=True)
    unknown = UnknownField()


class MemoryCurveKindSerializer(Serializer[Any]):
    """Bytes of one kind over time."""

    kind = CharField()
    bytes = ListField(child=IntegerField())


class MemoryCurveSerializer(Serializer[Any]):
    """What is counted after some events: columns of one length."""

    recording = IntegerField()
    low = IntegerField()
    high = IntegerField()
    event = ListField(child=IntegerField())
    at = ListField(child=IntegerField(), help_text="Place on the axis.")
    allocated_bytes = ListField(child=IntegerField())
    active_bytes = ListField(child=IntegerField())
    reserved_bytes = ListField(child=IntegerField())
    kinds = MemoryCurveKindSerializer(many=True, help_text="They add up to what is allocated.")


class MemoryOwnerSerializer(MemoryKindAtPeakSerializer):
    """Living allocations of one module, op and kind."""

    module = CharField(help_text="Path of the module; empty: unknown.")
    op = CharField(help_text="Op, or line of the program; empty: unknown.")
    op_path = CharField(allow_null=True, help_text="Part of the names of the module's ops.")
    allocations = IntegerField()
    stack = ListField(child=CharField(), help_text="Call stack of a largest one, innermost first.")


class MemoryAliveSerializer(Serializer[Any]):
    """What lives after an event."""

    recording = IntegerField()
    event = IntegerField()
    at = IntegerField(allow_null=True, help_text="Place on the axis; null: before all events.")
    profile_ns = IntegerField(allow_null=True, help_text="Time on the profile's clock.")
    iteration_index = IntegerField(allow_null=True, help_text="Iteration of the profile then.")
    allocated_bytes = IntegerField()
    active_bytes = IntegerField(allow_null=True)
    reserved_bytes = IntegerField()
    kinds = MemoryKindSerializer(many=True)
    num_owners = IntegerField()
    owners = MemoryOwnerSerializer(many=True, help_text="The 100 largest.")


class MemoryDifferencePartSerializer(Serializer[Any]):
    """What one kind, or one owner, holds at both peaks."""

    kind = CharField()
    owner = CharField(help_text="Module and op; empty: all of the kind.")
    base_bytes = IntegerField()
    new_bytes = IntegerField()
    difference_bytes = IntegerField()


class MemoryDifferenceSerializer(Serializer[Any]):
    """The peaks of one GPU in two recordings."""

    device = IntegerField()
    base_peak_allocated_bytes = IntegerField()
    new_peak_allocated_bytes = IntegerField()
    difference_bytes = IntegerField()
    kinds = MemoryDifferencePartSerializer(many=True, help_text="The largest difference first.")
    owners = MemoryDifferencePartSerializer(many=True, help_text="The largest difference first.")


class MemoryDifferencesSerializer(Serializer[Any]):
    """The peaks of two profiles."""

    differences = MemoryDifferenceSerializer(many=True)
