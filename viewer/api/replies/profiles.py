"""Replies about profiles and uploads."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from aggregator.system.replies import Unknown, doc
from viewer.api.replies.shared import Error


class ProfileFacts(Struct, kw_only=True):
    """What is known of a profile without its aggregations."""

    id: Annotated[str, doc("Part of the profile's address.")]
    name: Annotated[str, doc("Name of the profile, else the name of its file.")]
    file_name: Annotated[str, doc("Name of the file, without its folder.")]
    path: Annotated[str, doc("Where the file is on the server.")]
    is_stored: Annotated[bool, doc("Stored by the viewer: deleting the profile deletes it.")]
    is_foreign: Annotated[bool | None, doc("Written by NVIDIA's DLProf.")]
    db_version: Annotated[str | None, doc("Version of the DLProf that wrote it.")]
    mode: Annotated[str | None, doc("How its ranges were read.")]
    framework: Annotated[str | None, doc("Framework and its version.")]
    gpu_count: Annotated[int | None, doc("Number of GPUs.")]
    gpu_name: Annotated[str | None, doc("Names of the GPUs.")]
    iteration_count: Annotated[
        int | None, doc("Iterations of the whole profile, in its first aggregation.")
    ]
    created_at: Annotated[str | None, doc("When the database was written.")]
    aggregation_count: Annotated[int | None, doc("Number of aggregations in it.")]


class ProfileItem(ProfileFacts, kw_only=True):
    """A profile in the list of profiles."""

    error: Annotated[Error | None, doc("Why the file cannot be opened.")]


class SystemConfig(Struct, kw_only=True):
    """The system that a profile was recorded on."""

    profile_name: str | None
    cpu_model: str | None
    driver_version: str | None
    framework: str | None
    cuda_version: str | None
    cudnn_version: str | None
    nsys_version: str | None
    dlprof_version: str | None
    original_command: str | None
    dlprof_db_version: str | None
    viewer_version: str | None
    gpu_count: int | None
    gpu_names: list[str]


class ProfileWarning(Struct, kw_only=True):
    """Something that the import of a profile could not read or had to assume."""

    code: str
    message: str
    count: int


class Profile(ProfileFacts, kw_only=True):
    """A profile with everything that no aggregation changes."""

    system_config: SystemConfig
    domains: list[str]
    warnings: list[ProfileWarning]
    info: dict[str, str | None]
    converted_from: Annotated[str | None, doc("File of NVIDIA's that it was converted from.")]
    conversion_ids: list[Annotated[str, doc("Profile that was converted from this one.")]]
    can_reaggregate: bool
    cannot_reaggregate_reason: Annotated[str, doc("Empty if aggregations can be added.")]
    unknown: Unknown


class RemovedProfile(Struct, kw_only=True):
    """The result of removing a profile."""

    id: str
    deleted_files: list[Annotated[str, doc("Name of a file that the viewer stored.")]]
    is_unlisted: Annotated[bool, doc("The profile was removed from the list, its file kept.")]


class Upload(Struct, kw_only=True):
    """A file that was uploaded."""

    id: Annotated[str, doc("Names the upload in POST profiles/.")]
    file_name: Annotated[str, doc("The file's name, in characters that are safe in a path.")]
    size_bytes: int
