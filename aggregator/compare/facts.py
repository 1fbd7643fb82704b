"""The set-up of a capture: hardware, software and settings, by the names that they are called."""

from __future__ import annotations

import re
import shlex
import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from aggregator.events.model import LOADER_TYPES
from aggregator.kernels.traits import kernel_traits
from aggregator.system.untrusted_json import read_json

MINOR: Final = frozenset(
    {
        *("GPU clock", "GPU memory", "driver", "CPU", "Nsight Systems", "command", "world size"),
        "recorded",
    }
)
"""Facts that other ones imply or that rarely explain a difference."""
_SYSTEM: Final = {
    "driver_version": "driver",
    "cuda_version": "CUDA",
    "cudnn_version": "cuDNN",
    "framework": "framework",
    "cpu_model": "CPU",
    "mode_string": "mode",
    "nsys_version": "Nsight Systems",
    "original_command": "command",
}
"""Columns of ``system_config``, and what they are called."""
_FIRST: Final = ("GPU", "GPUs used", "mode", "framework", "matrix products", "torch_compile")
_LAST: Final = ("CUDA", "cuDNN", "driver", "GPU clock", "GPU memory", "CPU", "Nsight Systems")
_SAME_AS_FACTS: Final = (
    *("framework", "cuda_version", "cudnn_version"),
    *("markers", "marked_steps", "markers_resumed"),
)
_LOADER: Final = re.compile(r"^.*#_*(\w+?)DataLoaderIter.*$")
_OUTPUT_OPTION: Final = re.compile(
    r"^--(?:output_path|profile_name|base_name|nsys_base_name|nsys_base_output_filename|force)=|^-f="
)


def read_facts(
    connection: sqlite3.Connection,
    meta: dict[str, Any],
    devices_used: int,
    kernel_times: Iterable[tuple[str, int]],
) -> dict[str, str]:
    """The facts in the order in which they matter; what was not recorded is missing.

    Args:
        connection: A database of this program.
        meta: Its ``dldb_meta``.
        devices_used: GPUs that ran work.
        kernel_times: Full name of each kernel and its time; a name may come more than once.
    """
    facts = {**_devices(connection), "GPUs used": str(devices_used), **_system(connection)}
    facts |= _settings(connection)
    times = Counter[str]()
    for name, time_ns in kernel_times:
        times[name] += time_ns
    facts["matrix products"] = _matrix_type(times)
    if not facts.get("torch_compile"):
        is_generated = any(kernel_traits(name).source_ops for name in times)
        facts["torch_compile"] = "true" if is_generated else ""
    loaders = connection.execute("SELECT DISTINCT op_type FROM ops ORDER BY id")
    facts["data loader"] = _distinct(
        _LOADER.sub(r"\1", str(row[0])) for row in loaders if str(row[0]).startswith(LOADER_TYPES)
    )
    facts["world size"] = str(meta.get("rank_count", ""))
    facts["recorded"] = "a part of the run" if meta.get("recorded_note") else ""
    order = (*_FIRST, *(key for key in facts if key not in (*_FIRST, *_LAST, "command")), *_LAST)
    return {key: facts[key] for key in (*order, "command") if facts.get(key)}


def _devices(connection: sqlite3.Connection) -> dict[str, str]:
    columns = {row[1] for row in connection.execute("PRAGMA table_info(devices)")}
    clock = "clock_hz" if "clock_hz" in columns else "NULL"  # not stored before 2.1.1
    rows = connection.execute(f"SELECT name, {clock}, memory_bytes FROM devices ORDER BY id")  # noqa: S608
    devices = rows.fetchall()
    return {
        "GPU": _distinct(row[0] for row in devices),
        "GPU clock": _distinct(f"{row[1] / 1e6:g} MHz" for row in devices if row[1]),
        "GPU memory": _distinct(f"{row[2] / 2**30:.1f} GiB" for row in devices if row[2]),
    }


def _system(connection: sqlite3.Connection) -> dict[str, str]:
    listed = ", ".join(_SYSTEM)
    row = connection.execute(f"SELECT {listed} FROM system_config").fetchone()  # noqa: S608
    facts = dict(zip(_SYSTEM.values(), (str(value) for value in row), strict=True))
    facts["command"] = program_of(facts["command"])
    return {key: value for key, value in facts.items() if value != "unknown"}


def program_of(command: str) -> str:
    """The command line without the names of the files that it wrote; empty: an import of a file."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if any(re.match(r"--(?:nsys_)?database(?:=|$)", word) for word in words):
        return ""
    kept: list[str] = []
    is_value = False
    for word in words:
        option = f"{word}=" if word.startswith("-") else word
        if not is_value and not _OUTPUT_OPTION.match(word):
            is_value = "=" not in word and bool(_OUTPUT_OPTION.match(option))
            if not is_value:
                kept.append(word)
        else:
            is_value = False
    return shlex.join(kept)


def _settings(connection: sqlite3.Connection) -> dict[str, str]:
    rows = connection.execute(
        "SELECT key, value FROM model_config WHERE value IS NOT NULL ORDER BY id"
    )
    found = {}
    for key, value in rows:
        parsed = read_json(str(value))
        text = parsed if isinstance(parsed, str) else str(value)
        if key not in _SAME_AS_FACTS and text != "null":
            found[str(key)] = text
    return found


def _matrix_type(times: Counter[str]) -> str:
    """The element type in which most of the time of matrix products and convolutions is spent.

    Empty: most of it is in kernels whose names do not say it.
    """
    by_type = Counter[str]()
    for name, time_ns in times.items():
        traits = kernel_traits(name)
        if traits.is_clear and traits.may_multiply and not traits.is_helper:
            by_type[traits.element_types.read] += time_ns
    largest = max(by_type, key=lambda item: (by_type[item], item), default="")
    return largest if 2 * by_type[largest] > by_type.total() else ""


def _distinct(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values if value))
