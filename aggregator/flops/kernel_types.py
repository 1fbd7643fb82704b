"""Element types that kernel names tell: what ``emit_nvtx(record_shapes=True)`` does not record.

cuDNN, cuBLAS and CUTLASS spell operand types in their kernels' names, PyTorch's own kernels are
templates over them. The first floating point type named is that of the elements read; a cast names
both sides or only the one that it writes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

SIZES = {
    "float8": 1.0,
    "int8": 1.0,
    "bool": 1.0,
    "int16": 2.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "int32": 4.0,
    "float32": 4.0,
    "tf32": 4.0,
    "int64": 8.0,
    "float64": 8.0,
    "complex64": 8.0,
    "complex128": 16.0,
}
"""Unit: bytes."""


class KernelTypes(NamedTuple):
    """Element types of a kernel; empty: the name does not tell.

    Attributes:
        read: Type of the elements read.
        write: Type of the elements written.
        is_cast: Whether it reads another type than it writes.
        lists: Lists of tensors that it goes over (PyTorch's ``multi_tensor_apply``); 0: none told.
    """

    read: str = ""
    write: str = ""
    is_cast: bool = False
    lists: int = 0


_SHORT = {
    "f16": "float16",
    "fp16": "float16",
    "half": "float16",
    "h": "float16",
    "bf16": "bfloat16",
    "t": "bfloat16",
    "f32": "float32",
    "fp32": "float32",
    "s": "float32",
    "cf32": "float32",
    "tf32": "tf32",
    "f64": "float64",
    "d": "float64",
    "e4m3": "float8",
    "e5m2": "float8",
    "q": "float8",
    "o": "float8",
    "r": "float8",
    "i8": "int8",
    "s8": "int8",
    "u8": "int8",
    "b": "int8",
}

_CAST = re.compile(r"\b(float16|bfloat16|float8_?\w*?|half)_copy_kernel_cuda")
_LAMBDA = re.compile(r"lambda\((?:c10::)?([\w:<> ]+?)\)")
_NVJET = re.compile(r"nvjet_(?:sm\d+_)?([a-z]{3,6})_")
_XMMA = re.compile(
    r"_(bf16|f16|cf32|f32|tf32|f64|e4m3|e5m2|i8|u8|s8)(?:bf16|f16|cf32|f32|tf32|f64|e4m3|e5m2|i8|u8|s8)_((?:tf|bf|cf|f|e|i|u|s)[0-9m]+?)(?=tf|bf|cf|f|e|i|u|s|_)\w*?_"
)
_CUTLASS = re.compile(
    r"(?:tensorop|simt|wmma)_(?:(bf16|f16|fp16|tf32|e4m3|e5m2|s8|u8)_)?"
    r"([a-z])?(\d*)?(?:tf32)?(gemm|fprop|dgrad|wgrad|cudnn|dwconv)_?(bf16|f16|fp16|tf32|s8|u8|e4m3|e5m2)?"
)
_CUBLAS = re.compile(
    r"(?:volta|turing|ampere|maxwell|sm\d+|hopper|ada)_(?:(fp16|bf16|fp32|tf32|int8|f16)_)?"
    r"([shdcz])?(?:\d*)(gemm|scudnn|cudnn|gcgemm|sgemm|cgemm)"
)
_FUSED_ATTENTION = re.compile(r"(?:_|<)(bf16|f16|f32)(?:_|,)|(half_t|bfloat16_t)")
_TEMPLATE = (
    ("float8", re.compile(r"Float8_\w+|__nv_fp8_\w+|float_e4m3_t|float_e5m2_t")),
    ("bfloat16", re.compile(r"BFloat16|__nv_bfloat16|bfloat16_t|nv_bfloat162")),
    ("float16", re.compile(r"c10::Half|\b__half2?\b|half_t\b|\bhalf2?\b")),
    ("complex64", re.compile(r"complex<float>")),
    ("complex128", re.compile(r"complex<double>")),
    ("float64", re.compile(r"\bdouble\b")),
    ("float32", re.compile(r"\bfloat\b")),
)
_INTEGERS = (
    ("int64", re.compile(r"[<(,] ?(?:signed )?long(?: long)?[,>)]")),
    ("int32", re.compile(r"[<(,] ?int[,>)]")),
    ("int8", re.compile(r"\b(?:signed|unsigned) char\b")),
    ("bool", re.compile(r"[<(,] ?bool[,>)]")),
)
_LITERALS = re.compile(r"\((?:unsigned |signed )?(?:int|long|bool|char|short)\)-?\d+")
_NCCL = re.compile(
    r"nccl\w*?_(?:Sum|Prod|Min|Max|MinMax|Avg|PreMulSum|SumPostDiv)_"
    r"(bf16|f16|f32|f64|f8e4m3|f8e5m2|i8|u8|i32|u32|i64|u64)"
)
_NCCL_TYPES = {
    "f8e4m3": "float8",
    "f8e5m2": "float8",
    "i32": "int32",
    "u32": "int32",
    "i64": "int64",
    "u64": "int64",
}
_TENSOR_LISTS = re.compile(r"TensorList\w*Metadata<(?:[\w:]+(?:<\w+>)?, )?(?:\(int\))?(\d+)>")
_BYTES_ONLY = re.compile(r"vectorized_gather_kernel|OpaqueType<(?:\((?:unsigned )?int\))?(\d+)>")
_C_TYPES = {
    "float": "float32",
    "double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "bool": "bool",
    "unsigned char": "int8",
    "signed char": "int8",
    "short": "int16",
}


@lru_cache(maxsize=65536)
def kernel_types(name: str) -> KernelTypes:
    """Element types of a kernel by its demangled name."""
    for reader in (_cast, _opaque, _nvjet, _collective, _library, _template):
        found = reader(name)
        if found is not None:
            return found
    return KernelTypes()


def _cast(name: str) -> KernelTypes | None:
    source = _LAMBDA.search(name)
    told = _C_TYPES.get(source[1].removeprefix("c10::").strip(), "") if source else ""
    if (cast := _CAST.search(name)) is not None:
        kind = cast[1]
        write = "float8" if kind.startswith("float8") else _SHORT.get(kind, kind)
        return KernelTypes(told, write, is_cast=True)
    if "direct_copy_kernel_cuda" not in name:
        return None
    if "LoadWithCast" in name or "StoreWithCast" in name:
        return KernelTypes("", told, is_cast=True)
    return KernelTypes(told, told) if told else None


def _opaque(name: str) -> KernelTypes | None:
    found = _BYTES_ONLY.search(name)
    if found is None:
        return None
    by_size = {"1": "int8", "2": "int16", "4": "int32", "8": "int64"}
    kind = by_size.get(found[1] or "", "")
    return KernelTypes(kind, kind)


def _nvjet(name: str) -> KernelTypes | None:
    """``hsh``: operands, accumulator, result; five letters name both operands first."""
    found = _NVJET.search(name)
    if found is None:
        return None
    letters = found[1]
    return KernelTypes(_SHORT.get(letters[0], ""), _SHORT.get(letters[-1], ""))


def _collective(name: str) -> KernelTypes | None:
    """``AllReduce_Sum_f32``; a kernel that only moves data knows bytes and names no type."""
    found = _NCCL.search(name)
    if found is None:
        return KernelTypes() if "nccl" in name[:32].lower() else None
    kind = _NCCL_TYPES.get(found[1]) or _SHORT[found[1]]
    return KernelTypes(kind, kind)


def _library(name: str) -> KernelTypes | None:
    if "<" in name and "cutlass" not in name:
        return None
    if (found := _XMMA.search(name)) is not None:
        read, write = _SHORT[found[1]], _SHORT.get(found[2], "")
        return KernelTypes(
            "tf32" if "tf32" in name else read, "float32" if write == "tf32" else write or read
        )
    if ("fmha" in name or "flash" in name) and (found := _FUSED_ATTENTION.search(name)) is not None:
        kind = _SHORT.get(found[1] or "", "") or (
            "bfloat16" if found[2] == "bfloat16_t" else "float16"
        )
        return KernelTypes(kind, kind)
    if (found := _CUTLASS.search(name)) is not None:
        return _cutlass(name, found)
    if (found := _CUBLAS.search(name)) is not None:
        kind = _SHORT.get((found[1] or "").replace("int8", "i8"), "") or _by_letter(found[2], name)
        return KernelTypes(kind, "float32" if kind == "tf32" else kind)
    return None


def _cutlass(name: str, found: re.Match[str]) -> KernelTypes:
    """``tensorop_bf16_s16816gemm_bf16``: result, accumulator and tile, operands."""
    result, letter, tile, _, operand = found.groups()
    read = _SHORT.get(operand or result or "", "") or _by_letter(letter, name)
    if read == "float32" and "tensorop" in found[0] and tile:
        read = "tf32"
    write = _SHORT.get(result or "", read)
    return KernelTypes(read, "float32" if write == "tf32" else write)


def _by_letter(letter: str | None, name: str) -> str:
    """BLAS letters: hgemm, sgemm, dgemm, and complex ones that compute real convolutions."""
    if "sgemm" in name or "scudnn" in name:
        return "float32"
    return {
        "h": "float16",
        "s": "float32",
        "d": "float64",
        "c": "complex64",
        "z": "complex128",
    }.get(letter or "", "")


def _template(name: str) -> KernelTypes | None:
    """The first floating point type, or the first integer where there is none."""
    found = _TENSOR_LISTS.search(name)
    lists = int(found[1]) if found else 0
    # The type of the scalars in a list's description is not that of the tensors.
    bare = _LITERALS.sub("", _TENSOR_LISTS.sub("", name))
    for family in (_TEMPLATE, _INTEGERS):
        places = [(found.start(), kind) for kind, form in family if (found := form.search(bare))]
        if places:
            kind = min(places)[1]
            return KernelTypes(kind, kind, lists=lists)
    return KernelTypes(lists=lists) if lists else None
