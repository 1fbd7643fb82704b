"""The errors that the product raises: each has a class, a stable code, a message and a hint.

They are caught in three places only: ``main()`` of a command, the REST exception handler and the
wrapper of background tasks.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, TypeAlias

JSONValue: TypeAlias = "str | int | float | bool | list[JSONValue] | dict[str, JSONValue] | None"


class DlprofError(Exception):
    """Base of all deliberate errors.

    Attributes:
        code: Stable name for scripts.
        exit_code: Exit status of a command that ends with this error.
        http_status: Status of a REST reply that carries this error.
        message: One sentence.
        hint: What to do about it; may be empty.
        details: Further values for scripts.
    """

    code: str = "DLPROF_ERROR"
    exit_code: ClassVar[int] = 1
    http_status: int = 500

    def __init__(self, message: str, *, hint: str = "", **details: JSONValue) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, JSONValue] = details

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep hint and details on the way from another process."""
        values: dict[str, Any] = {"hint": self.hint, **self.details}
        return partial(type(self), **values), (self.message,)

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the one error shape of the REST API and of stored jobs."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
        }


class UsageError(DlprofError):
    """Invalid options or arguments."""

    code = "USAGE_ERROR"
    exit_code = 2
    http_status = 400


class UnknownReportError(UsageError):
    """A report or format token that does not exist."""

    code = "UNKNOWN_REPORT"


class IterationRangeError(UsageError):
    """An iteration range that is reversed or outside the profile."""

    code = "ITERATION_RANGE"


class InvalidValueError(UsageError):
    """A known parameter with an invalid value."""

    code = "INVALID_VALUE"


class UnknownOrderingError(UsageError):
    """Sorting by a column that the table does not have."""

    code = "UNKNOWN_ORDERING"


class UnknownFilterError(UsageError):
    """Filtering by a column or an operator that the table does not have."""

    code = "UNKNOWN_FILTER"


class AmbiguousKeyNodeError(UsageError):
    """A key node name that fits several ops; the hint lists their Op IDs."""

    code = "KEY_NODE_AMBIGUOUS"


class ToolError(DlprofError):
    """A required program is missing or failed."""

    code = "TOOL_ERROR"
    exit_code = 3


class NsysNotFoundError(ToolError):
    """Nsight Systems was not found."""

    code = "NSYS_NOT_FOUND"


class NsysFailedError(ToolError):
    """Nsight Systems ended with an error."""

    code = "NSYS_FAILED"


class CollectorError(ToolError):
    """dlprof's own collector cannot be used, or recorded nothing."""

    code = "COLLECTOR_FAILED"


class ExecutorError(ToolError):
    """What runs parts of the work cannot be used."""

    code = "EXECUTOR_FAILED"
    http_status = 503


class NotProfiledError(NsysFailedError):
    """The application ended before the collection began."""

    code = "NOT_PROFILED"


class NothingMeasuredError(ToolError):
    """No run of a trial has steps that were timed."""

    code = "NOTHING_MEASURED"


class ReportPageMissingError(ToolError):
    """The page of the HTML report was not built in this checkout."""

    code = "REPORT_PAGE_MISSING"
    http_status = 503


class ProfileError(DlprofError):
    """The profile cannot be used."""

    code = "PROFILE_ERROR"
    exit_code = 4
    http_status = 422


class ProfileNotFoundError(ProfileError):
    """The profile does not exist."""

    code = "PROFILE_NOT_FOUND"


class DownloadError(ProfileError):
    """A file at a URL cannot be read."""

    code = "DOWNLOAD_FAILED"


class UnsupportedProfileError(ProfileError):
    """A file in an unknown format."""

    code = "PROFILE_UNSUPPORTED"


class UnsupportedNsysSchemaError(ProfileError):
    """An Nsight Systems export without the tables or columns that are needed."""

    code = "NSYS_SCHEMA_UNSUPPORTED"


class CorruptProfileError(ProfileError):
    """A truncated or damaged file."""

    code = "PROFILE_CORRUPT"


class NotOneJobError(ProfileError):
    """Files that are not the ranks of one job."""

    code = "NOT_ONE_JOB"


class NoGpuActivityError(ProfileError):
    """The profile contains no CUDA work."""

    code = "NO_GPU_ACTIVITY"


class ReplayError(ProfileError):
    """The profile cannot be replayed."""

    code = "CANNOT_REPLAY"


class NoFrameworkRangesError(ProfileError):
    """The profile has no ranges of the framework selected by the mode."""

    code = "NO_FRAMEWORK_RANGES"


class KeyNodeNotFoundError(ProfileError):
    """The requested key node does not exist; the hint lists the closest names."""

    code = "KEY_NODE_NOT_FOUND"
    exit_code = 2
    http_status = 400


class AggregationNotFoundError(UsageError):
    """The profile has no aggregation of that number."""

    code = "AGGREGATION_NOT_FOUND"
    http_status = 404


class UnknownAnswerError(UsageError):
    """Nothing is answered at the address."""

    code = "UNKNOWN_ANSWER"
    http_status = 404


class OpNotFoundError(UsageError):
    """The aggregation has no op of that id."""

    code = "OP_NOT_FOUND"
    http_status = 404


class KernelNotFoundError(UsageError):
    """The aggregation has no kernel of that name."""

    code = "KERNEL_NOT_FOUND"
    http_status = 404


class FigureNotFoundError(UsageError):
    """There is no figure of that name."""

    code = "FIGURE_NOT_FOUND"
    http_status = 404


class EventNotFoundError(UsageError):
    """The timeline has no such event."""

    code = "EVENT_NOT_FOUND"
    http_status = 404


class LastAggregationError(UsageError):
    """The only aggregation of a profile cannot be deleted."""

    code = "LAST_AGGREGATION"
    http_status = 409


class DatabaseError(DlprofError):
    """The DLProf database cannot be used."""

    code = "DATABASE_ERROR"
    exit_code = 5
    http_status = 422


class DldbNotFoundError(DatabaseError):
    """The database does not exist."""

    code = "DATABASE_NOT_FOUND"


class NotADldbError(DatabaseError):
    """A file that is not a DLProf database, or a damaged one."""

    code = "DATABASE_FOREIGN"


class DldbVersionError(DatabaseError):
    """A DLProf database too old or too new to be read."""

    code = "DATABASE_VERSION"


class DatabaseWriteError(DatabaseError):
    """The database or a report cannot be written (read-only folder, full disk)."""

    code = "DATABASE_WRITE"
    http_status = 507


class DatabaseBusyError(DatabaseError):
    """Another process held the database's write lock for too long."""

    code = "DATABASE_BUSY"
    http_status = 503


class QueryTimeoutError(DlprofError):
    """A query exceeded its time limit."""

    code = "QUERY_TIMEOUT"
    exit_code = 5
    http_status = 503


class AggregationCancelledError(DlprofError):
    """The aggregation was cancelled by its owner."""

    code = "AGGREGATION_CANCELLED"
    exit_code = 130
    http_status = 409
