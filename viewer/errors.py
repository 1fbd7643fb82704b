"""Errors that only the server can make, in the one shape of ``aggregator.errors``."""

from __future__ import annotations

from aggregator.errors import DlprofError, UsageError


class UnknownDomainError(UsageError):
    """A domain that the profile does not have."""

    code = "UNKNOWN_DOMAIN"


class NotFoundError(DlprofError):
    """Nothing lives at the address asked for."""

    code = "NOT_FOUND"
    http_status = 404


class ProfileNotServedError(NotFoundError):
    """No profile of that id is served."""

    code = "PROFILE_NOT_SERVED"


class AggregationNotFoundError(NotFoundError):
    """The profile has no aggregation of that id."""

    code = "AGGREGATION_NOT_FOUND"


class IterationNotFoundError(NotFoundError):
    """The profile has no iteration of that index."""

    code = "ITERATION_NOT_FOUND"


class OpNotFoundError(NotFoundError):
    """The aggregation has no op of that id."""

    code = "OP_NOT_FOUND"


class FigureNotFoundError(NotFoundError):
    """There is no figure of that name."""

    code = "FIGURE_NOT_FOUND"


class JobNotFoundError(NotFoundError):
    """There is no job of that id."""

    code = "JOB_NOT_FOUND"


class JobStateError(DlprofError):
    """The job is in a state in which it cannot do what is asked."""

    code = "JOB_STATE"
    http_status = 409


class CannotReaggregateError(DlprofError):
    """The database can be read, and no aggregation can be added to it."""

    code = "CANNOT_REAGGREGATE"
    http_status = 409


class TooManyJobsError(DlprofError):
    """As many jobs wait as may."""

    code = "TOO_MANY_JOBS"
    http_status = 429


class PathNotAllowedError(DlprofError):
    """A path outside the folders whose files may be registered, or no file at all."""

    code = "PATH_NOT_ALLOWED"
    http_status = 403


class ProfileTooLargeError(DlprofError):
    """A file larger than any that is taken."""

    code = "PROFILE_TOO_LARGE"
    http_status = 413


class ProfileRefusedError(DlprofError):
    """A file whose content is not what a profile holds."""

    code = "PROFILE_REFUSED"
    http_status = 422


class ReportNeedsNsysError(DlprofError):
    """A report of Nsight Systems, and no Nsight Systems to open it."""

    code = "REPORT_NEEDS_NSYS"
    http_status = 422


class ProfileBusyError(DlprofError):
    """Jobs work on the profile that is to be deleted."""

    code = "PROFILE_BUSY"
    http_status = 409


class UploadNotFoundError(NotFoundError):
    """There is no upload of that id: finished, given up, or too old."""

    code = "UPLOAD_NOT_FOUND"


class UploadOffsetError(DlprofError):
    """A part of an upload that does not begin where the last one ended."""

    code = "UPLOAD_OFFSET"
    http_status = 409


class UploadIncompleteError(DlprofError):
    """An upload that is to be used before all of it is here."""

    code = "UPLOAD_INCOMPLETE"
    http_status = 409


class StorageFullError(DlprofError):
    """There is no room for the file."""

    code = "STORAGE_FULL"
    http_status = 507


class StateError(DlprofError):
    """The viewer's own database cannot be read or written."""

    code = "STATE_UNAVAILABLE"
    http_status = 503
