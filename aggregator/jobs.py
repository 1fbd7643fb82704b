"""What workers and the keeper of jobs tell each other; all of it can travel as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from aggregator.errors import JSONValue
from aggregator.options import AggregationRequest
from aggregator.texts import Text, say, to_json

REUSED = say("This aggregation was there already.")
IMPORTED = say("This profile was there already.")
#: How often a worker says that it is there.
PRESENCE_INTERVAL_S = 5.0
#: Where a stored error keeps what its sentences were made of.
WORDS = "words"


@dataclass(frozen=True)
class ClaimedJob:
    """A job that this worker, and no other, works on.

    Attributes:
        job_id: The job.
        claim: Proof of the claim, shown with every report.
        database: The database that gets the aggregation, or that an import makes.
        request: The aggregation; of an import, its first.
        sources: Profiles to import; empty: the job adds an aggregation.
        profile_name: Name that the imported profile gets; empty: none.
        mode: How the ranges of an imported profile are read.
        ranks: Number of the first rank of each source; empty: the files tell.
    """

    job_id: str
    claim: str
    database: Path
    request: AggregationRequest
    sources: tuple[Path, ...] = ()
    profile_name: str = ""
    mode: str = "auto"
    ranks: tuple[int, ...] = ()

    @property
    def is_import(self) -> bool:
        """Whether it makes a new database."""
        return bool(self.sources)

    def to_dict(self) -> dict[str, JSONValue]:
        """As a message."""
        return {
            "job_id": self.job_id,
            "claim": self.claim,
            "database": str(self.database),
            "request": asdict(self.request),
            "sources": [str(source) for source in self.sources],
            "profile_name": self.profile_name,
            "mode": self.mode,
            "ranks": list(self.ranks),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ClaimedJob:
        """From a message."""
        return cls(
            job_id=values["job_id"],
            claim=values["claim"],
            database=Path(values["database"]),
            request=AggregationRequest(**values["request"]),
            sources=tuple(Path(source) for source in values["sources"]),
            profile_name=values["profile_name"],
            mode=values["mode"],
            ranks=tuple(values.get("ranks", ())),
        )


@dataclass(frozen=True)
class Snapshot:
    """Where a job is.

    Attributes:
        phase: Name of the engine's phase.
        progress_pct: Done of the whole, never falling.
        rows_per_s: Rows of the phase per second, if it counts any.
        eta_s: Time left, if it can be told.
        message: The engine's latest line.
        parts: Of several rank files, a letter for each: ``w`` waiting, ``i`` being imported, ``d``
            done, ``f`` failed.
    """

    phase: str
    progress_pct: float
    rows_per_s: float | None
    eta_s: float | None
    message: str
    parts: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a job made.

    Attributes:
        aggregation_id: The aggregation.
        database: The database that holds it; a converted one for one of NVIDIA's.
        message: One line for a person; may be empty.
    """

    aggregation_id: int
    database: Path
    message: str

    def to_dict(self) -> dict[str, JSONValue]:
        """As a message."""
        return {
            "aggregation_id": self.aggregation_id,
            "database": str(self.database),
            "message": self.message,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Outcome:
        """From a message."""
        return cls(values["aggregation_id"], Path(values["database"]), values["message"])


@dataclass(frozen=True)
class Worker:
    """A process that works on jobs.

    Attributes:
        host: Name of its machine.
        pid: Its process.
        scope: Names the machine and the namespace in which the process id means something; only
            a keeper of the same scope may look whether the process lives.
    """

    host: str
    pid: int
    scope: str


class JobRecorder(Protocol):
    """Keeps the jobs."""

    def worker_started(self) -> None:
        """A worker is ready: jobs of dead workers can be begun again."""

    def worker_alive(self) -> None:
        """The worker is there, busy or not; called now and then, and quiet if nobody hears it."""

    def worker_ended(self) -> None:
        """The worker ends; quiet if nobody hears it."""

    def claim(self, token: str) -> ClaimedJob | None:
        """Take the job whose turn it is; None if none waits.

        A message to the workers is a token that says "there is work". Whose turn it is is decided
        only now, so that a user with a thousand jobs does not keep the others waiting.
        """

    def beat(self, job: ClaimedJob, snapshot: Snapshot) -> bool:
        """Tell where the job is, and that its worker lives; False: stop."""

    def finish(self, job: ClaimedJob, outcome: Outcome) -> None:
        """What was asked for is there."""

    def fail(self, job: ClaimedJob, error: dict[str, JSONValue]) -> None:
        """It cannot be made."""

    def cancel(self, job: ClaimedJob) -> None:
        """The job has stopped, as asked."""

    def release(self, job: ClaimedJob) -> None:
        """The worker has to end; somebody else may take the job."""


def stored_error(error: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
    """An error for a message or a row: its sentences with what they were made of."""
    if WORDS in error:
        return dict(error)
    words: dict[str, JSONValue] = {
        name: to_json(text) for name, text in error.items() if isinstance(text, Text)
    }
    return {**error, WORDS: words}
