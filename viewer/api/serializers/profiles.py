"""Serializers of profiles and uploads."""

from __future__ import annotations

from typing import Any

from rest_framework.serializers import (
    BooleanField,
    CharField,
    DictField,
    IntegerField,
    ListField,
    Serializer,
)

from viewer.api.serializers.shared import ErrorSerializer, UnknownField


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
