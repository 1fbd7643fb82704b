"""Names in Kineto traces, translated to those of the other sources."""

from __future__ import annotations

import re
from typing import Final

_KINDS_OF_COPIES: Final = "HtoD DtoH HtoA AtoH AtoA AtoD DtoA DtoD HtoH PtoP"
COPY_KINDS: Final = {name: kind for kind, name in enumerate(_KINDS_OF_COPIES.split(), 1)}
"""CUDA's numbers of the kinds of copies."""
_COPY: Final = re.compile(r"Memcpy (\w+)(?: \((\w+) -> (\w+)\))?")
_HOST_MEMORY: Final = {"Pageable": 0, "Pinned": 1}
_TYPES: Final = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long": "int64",
    "long int": "int64",
    "long long": "int64",
    "__int64": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "bool": "bool",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
"""PyTorch's names of C++ element types."""
_MOST_ELEMENTS: Final = 1 << 50
_MESSAGE_TYPES: Final = {
    "Float": 4,
    "Double": 8,
    "Half": 2,
    "BFloat16": 2,
    "Long": 8,
    "Int": 4,
    "Short": 2,
    **dict.fromkeys(("Char", "Byte", "Bool"), 1),
}
_QUOTED: Final = re.compile(r'"([^"]*)"')
_THREAD: Final = re.compile(r"^thread -?\d+ \((.*)\)$")
MODULE_PREFIX: Final = "nn.Module: "
_INSTANCE: Final = re.compile(r"_\d+$")


def copy_kinds(name: str) -> tuple[int, int]:
    """Return CUDA's kind of a copy, and the kind of the host's memory, or -1 if it is unknown."""
    found = _COPY.match(name)
    if found is None:
        return -1, -1
    kind = COPY_KINDS.get(found[1], -1)
    host = found[2] if kind == 1 else found[3] if kind == 2 else None
    return kind, _HOST_MEMORY.get(host or "", -1)


def copy_name(name: str, kind: str, source: str, target: str) -> str:
    """Name a copy as older versions of PyTorch do; newer ones write its kind as an argument."""
    if not kind or _COPY.match(name):
        return name
    memory = (side.capitalize() or "Unknown" for side in (source, target))
    return f"Memcpy {kind} ({' -> '.join(memory)})"


def data_type(types: bytes) -> str:
    """Element type of the first tensor of ``Input type``; empty: unknown."""
    found = map(element_type, _QUOTED.findall(types.decode("utf-8", "replace")))
    return next(filter(None, found), "")


def element_type(name: object) -> str:
    """Return PyTorch's name of a C++ element type, or an empty text if it is none."""
    return _TYPES.get(name.removeprefix("const ").strip(), "") if isinstance(name, str) else ""


def message_bytes(elements: int, kind: str) -> int:
    """Bytes of a collective's message by PyTorch's name of its type; -1: not recorded."""
    width = 1 if kind.startswith("Float8") else _MESSAGE_TYPES.get(kind, 0)
    return elements * width if width and 0 <= elements <= _MOST_ELEMENTS else -1


def thread_name(label: str) -> str:
    """Return ``pt_autograd_0`` for ``thread 5171 (pt_autograd_0)``."""
    found = _THREAD.match(label.strip())
    return found[1] if found else label.strip()


def module_range(name: str) -> str:
    """Return ``nn.Module: Conv2d_0`` as ranges of modules are named in every capture."""
    instance = name.removeprefix(MODULE_PREFIX)
    kind = re.sub(r"\W", "_", _INSTANCE.sub("", instance)) or "Module"
    return f"torch.nn: {instance} ({kind})"
