"""The commands: ``dlprof`` and ``dlprofviewer``."""

from __future__ import annotations
