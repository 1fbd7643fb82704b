"""Memory snapshots for tests, as PyTorch writes them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

SNAPSHOTS = (
    "magma.pickle",
    "w_medium_1024_training_memory_snapshot.pickle",
    "w_medium_128_inference_memory_snapshot.pickle",
)


def load(path: Path) -> dict[str, Any]:
    """Unpickle a snapshot of a trusted source, to compare with."""
    content: dict[str, Any] = pickle.loads(path.read_bytes())
    return content


def event(action: str, address: int, size: int, time_us: int, **more: Any) -> dict[str, Any]:
    """An event of an allocator."""
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "compile_context": "N/A",
        "user_metadata": "",
        "frames": [],
        **more,
    }


def frame(name: str, file: str, line: int = 1) -> dict[str, Any]:
    """A frame of a call stack."""
    return {"name": name, "filename": file, "line": line}


def segment(address: int, blocks: list[tuple[int, int, str]], **more: Any) -> dict[str, Any]:
    """A segment with blocks of (size, requested size, state)."""
    placed, place = [], address
    for size, requested, state in blocks:
        placed.append(
            {
                "address": place,
                "size": size,
                "requested_size": requested,
                "state": state,
                "frames": [],
            }
        )
        place += size
    return {
        "device": 0,
        "address": address,
        "total_size": place - address,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": placed,
        **more,
    }


def write(path: Path, events: list[list[dict[str, Any]]], segments: Any, **more: Any) -> Path:
    """Write a snapshot."""
    content = {
        "segments": segments,
        "device_traces": events,
        "allocator_settings": {},
        "external_annotations": [],
        **more,
    }
    path.write_bytes(pickle.dumps(content, protocol=4))
    return path
