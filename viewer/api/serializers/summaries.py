"""Serializers of advice, and of the calls of an op and the launches of a kernel."""

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


class RecommendationSerializer(Serializer[Any]):
    """A finding of one of DLProf's detectors."""

    id = IntegerField()
    detector = CharField(help_text="Name of the detector.", allow_null=True)
    problem = CharField()
    recommendation = CharField()
    drill_down = CharField(help_text="View that shows the details.", allow_null=True)
    drill_down_args = CharField(allow_null=True)


class RecommendationsSerializer(Serializer[Any]):
    """All findings of an aggregation."""

    count = IntegerField()
    results = RecommendationSerializer(many=True)


class TopKernelSerializer(Serializer[Any]):
    """A kernel over all ops that launched it."""

    readable_name = CharField(help_text="Library, operation, types, tile and layout.")
    kernel_long_name = CharField(help_text="Full name of the kernel.", allow_null=True)
    kernel_name = CharField(help_text="Short name of the kernel.")
    uses_tc = BooleanField(help_text="Whether it used Tensor Cores.", allow_null=True)
    num_calls = IntegerField(help_text="Number of launches.")
    gpu_time_ns = IntegerField(help_text="Sum of the durations of its launches.")
    num_ops = IntegerField(help_text="Number of ops that launched it.")
    share_pct = FloatField(help_text="Share of all kernels' time.", allow_null=True)


class TopKernelsSerializer(Serializer[Any]):
    """The kernels with the most GPU time."""

    count = IntegerField(help_text="Number of different kernels, by full name.")
    results = TopKernelSerializer(many=True)


class DurationBinSerializer(Serializer[Any]):
    """A bar of a histogram."""

    start_ns = IntegerField(help_text="Shortest duration of the bin, inclusive.")
    stop_ns = IntegerField(help_text="End of the bin, exclusive but for the last bin.")
    num_calls = IntegerField(help_text="Calls or launches of such a duration.")


class OpIterationSerializer(Serializer[Any]):
    """The calls of an op in an iteration."""

    iteration_index = IntegerField()
    num_calls = IntegerField(help_text="Calls that started in it.", allow_null=True)
    gpu_time_ns = IntegerField(help_text="Time in which the GPU worked for these calls.")
    cpu_time_ns = IntegerField(help_text="Their time on the CPU.", allow_null=True)


class CallShapesSerializer(Serializer[Any]):
    """Calls with the same shapes."""

    input_shapes = CharField()
    output_shapes = CharField()
    num_calls = IntegerField()
    gpu_time_ns = IntegerField()


class OpCallsSerializer(Serializer[Any]):
    """The calls of an op in the aggregated iterations."""

    iterations = OpIterationSerializer(many=True)
    gpu_time_bins = DurationBinSerializer(
        many=True, allow_null=True, help_text="Histogram of the GPU time of a call."
    )
    cpu_time_bins = DurationBinSerializer(
        many=True, allow_null=True, help_text="Histogram of the CPU time of a call."
    )
    longest_start_ns = IntegerField(
        help_text="Start of the call that took longest on CPU or GPU.", allow_null=True
    )
    longest_time_ns = IntegerField(help_text="How long it took.", allow_null=True)
    num_shapes = IntegerField(help_text="Number of different shapes.", allow_null=True)
    shapes = CallShapesSerializer(
        many=True, allow_null=True, help_text="The shapes with the most GPU time."
    )
    unknown = UnknownField()


class KernelIterationSerializer(Serializer[Any]):
    """The launches of a kernel in an iteration."""

    iteration_index = IntegerField()
    num_calls = IntegerField(help_text="Number of launches.")
    gpu_time_ns = IntegerField(help_text="Sum of their durations.")


class LaunchSizeSerializer(Serializer[Any]):
    """Launches of the same size."""

    grid = CharField(help_text="Size of the grid, in blocks.")
    block = CharField(help_text="Size of a block, in threads.")
    num_calls = IntegerField()
    gpu_time_ns = IntegerField()


class KernelLaunchesSerializer(Serializer[Any]):
    """The launches of a kernel in the aggregated iterations, all ops together."""

    kernel_name = CharField(help_text="Short name of the kernel.")
    kernel_long_name = CharField(
        help_text="Full name; null: the address has a short name.", allow_null=True
    )
    readable_name = CharField(help_text="Null if several kernels are meant.", allow_null=True)
    long_names = ListField(child=CharField(), help_text="Full names of all kernels meant.")
    uses_tc = BooleanField(
        help_text="Whether it used Tensor Cores; null: unknown, or some launches did.",
        allow_null=True,
    )
    num_ops = IntegerField(help_text="Number of ops that launched it.")
    num_calls = IntegerField(help_text="Number of launches.")
    gpu_time_ns = IntegerField(help_text="Sum of the durations.")
    gpu_time_avg_ns = FloatField(help_text="Mean duration.", allow_null=True)
    gpu_time_min_ns = IntegerField(help_text="Shortest duration.")
    gpu_time_max_ns = IntegerField(help_text="Longest duration.")
    share_pct = FloatField(help_text="Share of all kernels' time.", allow_null=True)
    iterations = KernelIterationSerializer(many=True, allow_null=True)
    gpu_time_bins = DurationBinSerializer(
        many=True, allow_null=True, help_text="Histogram of the durations."
    )
    num_sizes = IntegerField(help_text="Number of different launch sizes.", allow_null=True)
    sizes = LaunchSizeSerializer(
        many=True, allow_null=True, help_text="The launch sizes with the most GPU time."
    )
    unknown = UnknownField()
