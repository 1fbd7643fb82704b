"""Every error the product raises on purpose: a class, a stable code, one sentence, one hint.

Only the edges catch them: a command's ``main()``, the REST exception handler and the task wrapper.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

JSONValue: TypeAlias = "str | int | float | bool | list[JSONValue] | dict[str, JSONValue] | None"


class DlprofError(Exception):
    """Base of all deliberate errors.

    Attributes:
        code: Stable name for scripts.
        exit_code: Exit status of a command that ends with this error.
        http_status: Status of a REST reply that carries this error.
        message: One sentence for a person.
        hint: What to do about it; may be empty.
        details: Further values for scripts.
    """

    code: ClassVar[str] = "DLPROF_ERROR"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str = "", **details: JSONValue) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, JSONValue] = details

    def to_dict(self) -> dict[str, JSONValue]:
        """The one error shape of the REST API and of stored jobs."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
        }


class UsageError(DlprofError):
    """The caller asked for something that makes no sense."""

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
    """A parameter whose name is known and whose value is not."""

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
    """A program that the command depends on is missing or failed."""

    code = "TOOL_ERROR"
    exit_code = 3


class NsysNotFoundError(ToolError):
    """Nsight Systems is not installed, or not where it was looked for."""

    code = "NSYS_NOT_FOUND"


class NsysFailedError(ToolError):
    """Nsight Systems ended with an error."""

    code = "NSYS_FAILED"


class NsysTooOldError(ToolError):
    """The installed Nsight Systems cannot do what is asked."""

    code = "NSYS_TOO_OLD"


class ReportPageMissingError(ToolError):
    """A checkout in which the page of the HTML report was not built."""

    code = "REPORT_PAGE_MISSING"
    http_status = 503


class ProfileError(DlprofError):
    """The profile cannot be used."""

    code = "PROFILE_ERROR"
    exit_code = 4
    http_status = 422


class ProfileNotFoundError(ProfileError):
    """No file at the path given."""

    code = "PROFILE_NOT_FOUND"


class UnsupportedProfileError(ProfileError):
    """A file that is no profile of a kind known here."""

    code = "PROFILE_UNSUPPORTED"


class UnsupportedNsysSchemaError(ProfileError):
    """An Nsight Systems export without the tables or columns that are needed."""

    code = "NSYS_SCHEMA_UNSUPPORTED"


class CorruptProfileError(ProfileError):
    """A file that breaks off or cannot be read to its end."""

    code = "PROFILE_CORRUPT"


class NotOneJobError(ProfileError):
    """Files that are not the ranks of one job."""

    code = "NOT_ONE_JOB"


class NoGpuActivityError(ProfileError):
    """The profile holds no CUDA work at all."""

    code = "NO_GPU_ACTIVITY"


class NoFrameworkRangesError(ProfileError):
    """A framework mode was asked for, and the profile has no ranges of that framework."""

    code = "NO_FRAMEWORK_RANGES"


class KeyNodeNotFoundError(ProfileError):
    """The key node asked for does not exist; the hint names the closest."""

    code = "KEY_NODE_NOT_FOUND"
    exit_code = 2
    http_status = 400


class DatabaseError(DlprofError):
    """The DLProf database cannot be used."""

    code = "DATABASE_ERROR"
    exit_code = 5
    http_status = 422


class DldbNotFoundError(DatabaseError):
    """No database at the path given."""

    code = "DATABASE_NOT_FOUND"


class NotADldbError(DatabaseError):
    """A file that is no DLProf database."""

    code = "DATABASE_FOREIGN"


class DldbVersionError(DatabaseError):
    """A DLProf database too old or too new to be read."""

    code = "DATABASE_VERSION"


class DatabaseWriteError(DatabaseError):
    """The database or a report cannot be written (read-only folder, full disk)."""

    code = "DATABASE_WRITE"
    http_status = 507


class DatabaseBusyError(DatabaseError):
    """Another process holds the database's write lock for too long."""

    code = "DATABASE_BUSY"
    http_status = 503


class QueryTimeoutError(DlprofError):
    """A query passed its time limit."""

    code = "QUERY_TIMEOUT"
    exit_code = 5
    http_status = 503


class AggregationCancelledError(DlprofError):
    """The aggregation was cancelled by its owner."""

    code = "AGGREGATION_CANCELLED"
    exit_code = 130
    http_status = 409
