"""Names of C++ functions as people write them."""

from __future__ import annotations

import ctypes
from functools import lru_cache


def demangled(name: str) -> str:
    """A C++ name as people write it; as it is where the C++ library is not at hand."""
    return _demangled(name) if name.startswith("_Z") else name


@lru_cache(maxsize=65536)
def _demangled(name: str) -> str:
    library = _cxx_library()
    if library is None:
        return name
    status = ctypes.c_int()
    result = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
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
