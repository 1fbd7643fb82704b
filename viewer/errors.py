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
