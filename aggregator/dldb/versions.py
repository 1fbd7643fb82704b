"""Versions of DLProf databases: what can be read, and what a file is."""

from __future__ import annotations

import re

DB_VERSION = "2.1.1"
"""Version of the databases written here; NVIDIA's last was 1.8.0.

Any change of the tables raises it: the patch where files of the version before can be aggregated
without what is new (a test does so with one), else the minor.
"""
OLDEST = (1, 2)
"""NVIDIA's own rule: databases of DLProf 1.0 and 1.1 are not read."""


NEWEST_FOREIGN = (1, 8)
"""NVIDIA's last release."""


def parse_version(text: str) -> tuple[int, ...]:
    """Numbers of a version text: ``v1.8.0`` -> (1, 8, 0); empty if there are none."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def is_aggregable(version: str) -> bool:
    """Whether aggregations can be added to a database of ours of this version.

    Minor versions before 1.0 of this project differ in their tables: an older file is shown, and
    what it lacks is unknown, but only its profile can be aggregated again.
    """
    return parse_version(version)[:2] == parse_version(DB_VERSION)[:2]
