"""Tables whose rows are not in a profile's database: the profiles themselves, and the jobs."""

from __future__ import annotations

from aggregator.query.memory import RECORDS
from aggregator.query.spec import TableSpec, boolean, choice, identifier, number, real, text
from aggregator.texts import say

PROFILES = TableSpec(
    name="profiles",
    title=say("Profiles"),
    source=RECORDS,
    columns=(
        identifier("id", "t.id", "Part of the profile's address."),
        text("name", "t.name", "Name given to the profile, else its file's name."),
        text("file_name", "t.file_name", "Name of the file, without its folder."),
        boolean("is_foreign", "t.is_foreign", "Written by NVIDIA's DLProf.", nullable=True),
        text("db_version", "t.db_version", "Version of its DLProf.", nullable=True),
        choice("mode", "t.mode", "How its ranges were read.", nullable=True),
        text("framework", "t.framework", "Framework and its version.", nullable=True),
        number("gpu_count", "t.gpu_count", "GPUs.", nullable=True),
        text("created_at", "t.created_at", "When the database was made.", nullable=True),
        number("aggregation_count", "t.aggregation_count", "Aggregations in it.", nullable=True),
        number("position", "t.position", "Place in the order named at the start."),
    ),
    default_ordering=("position",),
    key=("id",),
)

JOBS = TableSpec(
    name="jobs",
    title=say("Jobs"),
    source=RECORDS,
    columns=(
        identifier("id", "t.id", "Part of the job's address."),
        identifier("profile", "t.profile_id", "Profile that it works on."),
        choice("kind", "t.kind", "aggregation or import."),
        choice("state", "t.state", "queued, running, done, failed or cancelled."),
        number("aggregation_id", "t.aggregation_id", "What it made.", nullable=True),
        real("progress_pct", "t.progress_pct", "Done of the whole."),
        text("created_at", "t.created_at", "When it was asked for."),
        text("started_at", "t.started_at", "When a worker took it.", nullable=True),
        text("finished_at", "t.finished_at", "When it ended.", nullable=True),
    ),
    default_ordering=("-created_at",),
    key=("id",),
)
