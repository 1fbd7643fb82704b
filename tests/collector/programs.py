"""Programs that use a stand-in for CUDA, CUPTI and NVTX, with the collector in them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from aggregator.sources.collector.records import Records, read_records

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
LIMIT_S = 120
START = """
import ctypes, os, signal, sys, threading, time
fake = ctypes.CDLL({fake!r})
collector = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
begin, detach = collector.dlprof_collector_begin, collector.dlprof_collector_detach
fake.nvtx_domain.restype = fake.nvtx_register.restype = ctypes.c_void_p
fake.nvtx_start.restype = ctypes.c_uint64
fake.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
fake.fake_graph_node.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
fake.fake_copy.argtypes = [ctypes.c_uint64, ctypes.c_int]
fake.nvtx_end.argtypes = [ctypes.c_uint64]
fake.nvtx_domain_push.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
fake.nvtx_domain_pop.argtypes = [ctypes.c_void_p]
fake.nvtx_register.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
fake.nvtx_init()

class Attributes(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16),
                ("category", ctypes.c_uint32), ("color_type", ctypes.c_int32),
                ("color", ctypes.c_uint32), ("payload_type", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("payload", ctypes.c_uint64),
                ("message_type", ctypes.c_int32), ("message", ctypes.c_void_p)]
    def __init__(self, **values):
        super().__init__(version=3, size=ctypes.sizeof(Attributes), **values)
"""


class Program:
    """Runs programs that use the stand-in, with the collector in them."""

    def __init__(self, folder: Path, cache: Path, library: Path) -> None:
        self.folder = folder
        self.records = folder / "records"
        self.records.mkdir()
        self.cache = cache
        self.fake = cache / "libcupti.so.99"
        self.environment = {
            **os.environ,
            "DLPROF_COLLECT": str(self.records),
            "CUDA_INJECTION64_PATH": str(library),
            "NVTX_INJECTION64_PATH": str(library),
        }

    def separate_cupti(self) -> None:
        """Let the collector load CUPTI, as in a program that has not."""
        self.fake = self.cache / "separate/libcuda.so.1"
        cupti = self.cache / "separate/libcupti.so.99"
        self.environment["DLPROF_COLLECT_CUPTI"] = str(cupti)

    def text(self, script: str) -> str:
        return START.format(fake=str(self.fake)) + script

    def run(
        self, script: str, *, begins: bool = True, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        if begins:
            (self.records / "started").touch()
        return subprocess.run(
            [sys.executable, "-c", self.text(script)],
            env={**self.environment, **(more or {})},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Start a program that is collected from the start."""
        (self.records / "started").touch()
        words = [sys.executable, "-c", self.text(script)]
        return subprocess.Popen(words, env=self.environment)

    def files(self) -> list[Path]:
        return sorted(self.records.glob("*.records"))

    def read(self) -> Records:
        (path,) = self.files()
        return read_records(path)
