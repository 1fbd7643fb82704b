"""Serializers of the replies that are not rows of a declared table."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DictField,
    FloatField,
    IntegerField,
    JSONField,
    ListField,
    Serializer,
)

from aggregator.advice.verdict import Limit
from viewer.state.models import JobKind, JobState


class ErrorSerializer(Serializer[Any]):
    """The one error shape."""

    code = CharField(help_text="Stable name for scripts.")
    message = CharField(help_text="One sentence for a person.")
    hint = CharField(help_text="What to do about it; may be empty.")
    details = DictField(help_text="Further values for scripts.")


class ProfileItemSerializer(Serializer[Any]):
    """A profile in the list of profiles."""

    id = CharField(help_text="Part of the profile's address.")
    name = CharField(help_text="Name of the profile, else the name of its file.")
    file_name = CharField(help_text="Name of the file, without its folder.")
    path = CharField(help_text="Where the file is on the server.")
    is_stored = BooleanField(help_text="Stored by the viewer: deleting the profile deletes it.")
    is_foreign = BooleanField(help_text="Written by NVIDIA's DLProf.", allow_null=True)
    db_version = CharField(help_text="Version of the DLProf that wrote it.", allow_null=True)
    mode = CharField(help_text="How its ranges were read.", allow_null=True)
    framework = CharField(help_text="Framework and its version.", allow_null=True)
    gpu_count = IntegerField(help_text="Number of GPUs.", allow_null=True)
    gpu_name = CharField(help_text="Names of the GPUs.", allow_null=True)
    iteration_count = IntegerField(
        help_text="Iterations of the whole profile, in its first aggregation.", allow_null=True
    )
    created_at = CharField(help_text="When the database was written.", allow_null=True)
    aggregation_count = IntegerField(help_text="Number of aggregations in it.", allow_null=True)
    error = ErrorSerializer(allow_null=True, help_text="Why the file cannot be opened.")


class SystemConfigSerializer(Serializer[Any]):
    """The system that a profile was recorded on."""

    profile_name = CharField(allow_null=True)
    cpu_model = CharField(allow_null=True)
    driver_version = CharField(allow_null=True)
    framework = CharField(allow_null=True)
    cuda_version = CharField(allow_null=True)
    cudnn_version = CharField(allow_null=True)
    nsys_version = CharField(allow_null=True)
    dlprof_version = CharField(allow_null=True)
    original_command = CharField(allow_null=True)
    dlprof_db_version = CharField(allow_null=True)
    viewer_version = CharField(allow_null=True)
    gpu_count = IntegerField(allow_null=True)
    gpu_names = ListField(child=CharField())


class ProfileWarningSerializer(Serializer[Any]):
    """Something that the import of a profile could not read or had to assume."""

    code = CharField()
    message = CharField()
    count = IntegerField()


class UnknownField(DictField):
    """Reasons of the values of a reply that are null."""

    def __init__(self) -> None:
        text = "Why a field is null, by the field's name; * stands for all of them."
        super().__init__(child=CharField(), help_text=text)


class ProfileSerializer(ProfileItemSerializer):
    """A profile with everything that no aggregation changes."""

    error = None  # type: ignore[assignment]
    system_config = SystemConfigSerializer()
    domains = ListField(child=CharField())
    warnings = ProfileWarningSerializer(many=True)
    info = DictField(child=CharField(allow_null=True))
    converted_from = CharField(
        help_text="File of NVIDIA's that it was converted from.", allow_null=True
    )
    conversion_ids = ListField(
        child=CharField(help_text="Profile that was converted from this one.")
    )
    can_reaggregate = BooleanField()
    cannot_reaggregate_reason = CharField(help_text="Empty if aggregations can be added.")
    unknown = UnknownField()


class RemovedProfileSerializer(Serializer[Any]):
    """The result of removing a profile."""

    id = CharField()
    deleted_files = ListField(child=CharField(help_text="Name of a file that the viewer stored."))
    is_unlisted = BooleanField(help_text="The profile was removed from the list, its file kept.")


class UploadSerializer(Serializer[Any]):
    """A file that was uploaded."""

    id = CharField(help_text="Names the upload in POST profiles/.")
    file_name = CharField(help_text="The file's name, in characters that are safe in a path.")
    size_bytes = IntegerField()


class AggregationRequestSerializer(Serializer[Any]):
    """What a job was asked to aggregate."""

    key_node = CharField(help_text="Op ID, op name or range name; empty: chosen from the profile.")
    iter_start = IntegerField(help_text="First iteration, inclusive.", allow_null=True)
    iter_stop = IntegerField(help_text="Last iteration, inclusive.", allow_null=True)
    phase = CharField(help_text="Only iterations of this phase; empty: all.")


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


class VerdictSerializer(Serializer[Any]):
    """What limits a step."""

    limit = ChoiceField(choices=list(Limit))
    sentence = CharField(help_text="The verdict in one sentence; for an unknown one the reason.")
    share_pct = FloatField(help_text="Share of the step it is based on.", allow_null=True)
    advice = CharField(help_text="Name of the advice that explains it.", allow_null=True)
    is_corrected = BooleanField(help_text="Whether it is that of the step without profiling.")
    pace = CharField(help_text="That the CPU runs ahead of the GPU, if it does.", allow_null=True)


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


class LaneItemsSerializer(Serializer[Any]):
    """What a lane shows: columns of one length."""

    key = CharField()
    offset_ns = ListField(child=IntegerField(), help_text="Start after start_ns.")
    duration_ns = ListField(child=IntegerField())
    count = ListField(child=IntegerField(), help_text="Events; more than 1: joined short ones.")
    busy_ns = ListField(child=IntegerField(), help_text="Sum of their durations.")
    name = ListField(
        child=IntegerField(), help_text="Index into names; of joined events: with most time."
    )
    category = ListField(
        child=IntegerField(),
        help_text="0 Tensor Core kernel, 1 other kernel, 2 communication, 3 copy, 4 set, "
        "5 CUDA graph, -1 none.",
    )
    op = ListField(child=IntegerField(), help_text="Index of that event's op in names; -1: none.")
    row_id = ListField(child=IntegerField(), help_text="Row of that event in its table.")


class TimelineItemsSerializer(Serializer[Any]):
    """What lanes show of some time."""

    start_ns = IntegerField(help_text="Start of the first bin of the grid.")
    stop_ns = IntegerField(help_text="End of the last bin.")
    bin_ns = IntegerField(help_text="Shorter events that begin in one bin are joined.")
    names = ListField(child=CharField())
    lanes = LaneItemsSerializer(many=True)


class RangeCategorySerializer(Serializer[Any]):
    """Work of one kind in a range of time."""

    category = IntegerField(help_text="As in the items of a timeline.")
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
    category = IntegerField(help_text="As in the items of a timeline.")
    op_type = CharField()


class TimelineEventSerializer(RangeEventSerializer):
    """One event; what is not known, or is not of its kind, is left out or null."""

    category = IntegerField(help_text="As in the items of a timeline.")
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
    interval_ns = ListField(
        child=IntegerField(), allow_null=True, help_text="10th and 90th percentile of the steps."
    )
    is_bound = BooleanField(allow_null=True, help_text="Whether it is only a bound.")


class ComparedRankSerializer(Serializer[Any]):
    """A rank compared with the others."""

    rank = IntegerField()
    late_ns = IntegerField(help_text="Mean own time in a step less the median of the others.")
    step_without_ns = IntegerField(
        allow_null=True, help_text="Mean step without its slowness; null: not replayed."
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
        child=IntegerField(), help_text="Iterations in which it is much later; empty: in all."
    )
    step_ns = IntegerField(help_text="Mean measured step.")
    ideal_step_ns = IntegerField(help_text="Mean step with all ranks at the median.")
    slowdown = FloatField(help_text="The replayed step over the ideal one.")
    error_pct = ErrorPctSerializer()
    ranks = ComparedRankSerializer(many=True)
    iterations = RankStepSerializer(many=True)


class FigureSerializer(Serializer[Any]):
    """A Plotly figure."""

    data = ListField(child=DictField())  # type: ignore[assignment]
    layout = DictField()


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

    step_ns = ExactField(help_text=f"Mean step. {_EXACT}")
    median_ns = IntegerField()
    iterations = IntegerField()
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
    """A row's time in every iteration, one list per capture."""

    base_ns = ListField(child=ListField(child=FloatField()))
    new_ns = ListField(child=ListField(child=FloatField()))


class HistoryCaptureSerializer(Serializer[Any]):
    """One profile of a history."""

    name = CharField(help_text="Id of the profile.")
    started_at = CharField(allow_null=True, help_text="UTC; null: the profile holds no date.")
    aggregation = IntegerField()
    iterations = IntegerField()
    gpu = CharField()
    step_ns = FloatField(help_text="Mean step.")


class HistoryChangeSerializer(Serializer[Any]):
    """Where a trend changed."""

    index = IntegerField(help_text="First capture after the change.")
    capture = CharField()
    before_ns = IntegerField()
    after_ns = IntegerField()
    p_value = FloatField()


class HistoryTrendSerializer(Serializer[Any]):
    """Mean time per step in every capture."""

    kind = CharField(help_text="step, class or op.")
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
