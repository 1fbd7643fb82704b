"""Names of C++ functions: demangled, and without their arguments."""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache

from aggregator.kernels.mangled import UnknownMangling, demangle_mangled

LAYOUT_CONVERSION = re.compile(
    r"nchwToNhwc|nhwcToNchw|nchw_to_nhwc|nhwc_to_nchw|nhwcAddPadding", re.I
)
"""Names of cuDNN's kernels between (N, C, H, W) and (N, H, W, C)."""
_LENGTH = re.compile(r"[1-9]\d{0,3}")


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """Demangle a C++ name as Nsight Systems does, so that both collectors write the same.

    Names by rules that are not known here are spelled by the C++ library of the system; where there
    is none, they stay.
    """
    if not name.startswith("_Z"):
        return name
    try:
        return demangle_mangled(name)
    except UnknownMangling:
        return demangle_by_library(name)


def demangle_by_library(name: str) -> str:
    """Demangle a C++ name as ``c++filt`` does; it stays where no C++ library is installed."""
    library = _cxx_library()
    if library is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    result = library.__cxa_demangle(name.encode(errors="replace"), None, None, ctypes.byref(status))
    if not result:
        return name
    text = ctypes.string_at(result).decode(errors="replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(result))
    return text


@lru_cache(maxsize=1)
def _cxx_library() -> ctypes.CDLL | None:
    for name in ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.__cxa_demangle.restype = ctypes.c_void_p
        return library
    return None


def short_name(name: str) -> str:
    """Return a kernel's name without result, namespaces, template arguments and parameters.

    As Nsight Systems shortens it: ``void at::f<4, A>(int, A)`` is ``f``.
    """
    if name.startswith("_Z"):
        return _mangled_name(name)
    depth, text = 0, []
    for position, char in enumerate(name):
        if char == "<":
            depth += 1
        elif char == ">" and depth:
            depth -= 1
        elif char == "(" and not depth and not name.startswith("(anonymous namespace)", position):
            break
        elif not depth:
            text.append(char)
    shown = "".join(text).replace("(anonymous namespace)", "").strip()
    return shown.rpartition(" ")[2].rpartition("::")[2] or name


def _mangled_name(name: str) -> str:
    """Return the last plain name of a mangled one: ``_ZN7cutlass6KernelI...`` is ``Kernel``."""
    start, found = len("_ZN") if name.startswith("_ZN") else len("_Z"), name
    while length := _LENGTH.match(name, start):
        start = length.end() + int(length[0])
        if start > len(name):
            break
        found = name[length.end() : start]
    return found


_ANONYMOUS = re.compile(r"<unnamed>|\(anonymous namespace\)")


def signature_text(demangled_name: str) -> str:
    """A demangled name without result type and parameters; anonymous namespaces are ``unnamed``.

    Both are cut at the outermost level only: template arguments hold blanks and parentheses too.
    """
    declaration = _ANONYMOUS.sub("unnamed", demangled_name.strip())
    depth = start = 0
    for index, char in enumerate(declaration):
        if char in "<[{" or (char == "(" and depth):
            depth += 1
        elif char in ">]})" and declaration[index - 1] != "-":
            depth -= 1
        elif depth == 0 and char == "(":
            return declaration[start:index].strip()
        elif depth == 0 and char == " ":
            start = index + 1
    return declaration[start:].strip()
