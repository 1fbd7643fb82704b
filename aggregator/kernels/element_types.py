"""Element types from kernel names, because ``emit_nvtx(record_shapes=True)`` records sizes only.

cuDNN, cuBLAS and CUTLASS spell operand types in their kernels' names; PyTorch's own kernels are
templates over them. The first floating point type in the name is that of the elements read. A cast
names both types, or only the one that it writes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SIZES = {
    # Two elements of 4 bits share a byte, which is what the sizes of such a tensor count.
    "float4": 1.0,
    "float6": 0.75,
    "float8": 1.0,
    "int8": 1.0,
    "uint8": 1.0,
    "bool": 1.0,
    "int16": 2.0,
    "uint16": 2.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "int32": 4.0,
    "uint32": 4.0,
    "float32": 4.0,
    "tf32": 4.0,
    "int64": 8.0,
    "uint64": 8.0,
    "float64": 8.0,
    "complex64": 8.0,
    "complex128": 16.0,
}
"""Size of an element of each type. Unit: bytes."""


def element_size(data_type: str) -> float | None:
    """Size of an element by PyTorch's name of its type; None: unknown. Unit: bytes."""
    return SIZES.get(plain_type(data_type))


def plain_type(data_type: str) -> str:
    """Return a type without its format: all kinds of ``float8`` are one, and so on."""
    return data_type[:6] if data_type.startswith(("float8", "float6", "float4")) else data_type


class ElementTypes(NamedTuple):
    """Element types of a kernel; empty: not in its name."""

    read: str = ""  # Type of the elements read.
    write: str = ""  # Type of the elements written.
    is_cast: bool = False  # Whether it reads another type than it writes.
    # Lists of tensors that it processes (PyTorch's ``multi_tensor_apply``); 0: unknown.
    lists: int = 0
    # Whether it is an attention that leaves out the keys after each query; None: not in its name.
    is_causal: bool | None = None


_SPELLINGS = {
    "float16": "f16 fp16 half h",
    "bfloat16": "bf16 t",
    "float32": "f32 fp32 s cf32",
    "tf32": "tf32",
    "float64": "f64 d",
    "float8": "e4m3 e5m2 q o r",
    "int8": "i8 s8 u8 b",
}
_SHORT = {short: kind for kind, texts in _SPELLINGS.items() for short in texts.split()}

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
_TRITON_TYPES = {
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8",
    **{f"mxfp{bits}": f"float{bits}" for bits in (8, 6, 4)},
}
"""Types in the names of Triton's matrix kernels, the widest first."""
_TRITON_TYPE = "(fp32|[fb][pf]16|fp8|mxfp[468])"
_TRITON = re.compile(rf"_{_TRITON_TYPE}\w{{0,4}}?x{_TRITON_TYPE}\w{{0,4}}?x{_TRITON_TYPE}")
"""``_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1``: result and both operands."""
_BOOL = r"(?:\(bool\))?(0|1|true|false)"
_FLASH = re.compile(rf"flash_[fb]wd_(?P<split>splitkv_)?\w*<\w+<.*?>[> ]*, {_BOOL}, {_BOOL}[,>]")
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
_NCCL_TYPES = {
    "f8e4m3": "float8",
    "f8e5m2": "float8",
    "i32": "int32",
    "u32": "int32",
    "i64": "int64",
    "u64": "int64",
    "float": "float32",
    "double": "float64",
    "__nv_bfloat16": "bfloat16",
    "int8_t": "int8",
    "uint8_t": "int8",
    "int32_t": "int32",
    "uint32_t": "int32",
    "int64_t": "int64",
    "uint64_t": "int64",
    **{short: _SHORT[short] for short in ("bf16", "f16", "f32", "f64", "i8", "u8", "half")},
}
_REDUCED = re.compile(
    rf"_(?:AllReduce|ReduceScatter|Reduce)_(?:\w+?_)?({'|'.join(_NCCL_TYPES)})(?=[_(]|$)"
)
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


def read_element_types(name: str) -> ElementTypes:
    """Read the element types from a demangled kernel name."""
    for reader in (_cast, _opaque, _nvjet, _collective, _triton, _library, _template):
        found = reader(name)
        if found is not None:
            return found._replace(is_causal=_is_causal(name)) if "flash" in name else found
    return ElementTypes()


def _is_causal(name: str) -> bool | None:
    """Read the arguments of FlashAttention 2's templates: whether it drops out, has a mask, ..

    ``flash_fwd_kernel<traits, Is_dropout, Is_causal, ..>``, the same for the backward;
    ``flash_fwd_splitkv_kernel<traits, Is_causal, ..>`` has no dropout.
    """
    found = _FLASH.search(name)
    return None if found is None else found[3 - bool(found["split"])] in ("1", "true")


def _cast(name: str) -> ElementTypes | None:
    source = _LAMBDA.search(name)
    argument = _C_TYPES.get(source[1].removeprefix("c10::").strip(), "") if source else ""
    if (cast := _CAST.search(name)) is not None:
        kind = cast[1]
        write = "float8" if kind.startswith("float8") else _SHORT.get(kind, kind)
        return ElementTypes(argument, write, is_cast=True)
    if "direct_copy_kernel_cuda" not in name:
        return None
    if "LoadWithCast" in name or "StoreWithCast" in name:
        return ElementTypes("", argument, is_cast=True)
    return ElementTypes(argument, argument) if argument else None


def _opaque(name: str) -> ElementTypes | None:
    found = _BYTES_ONLY.search(name)
    if found is None:
        return None
    by_size = {"1": "int8", "2": "int16", "4": "int32", "8": "int64"}
    kind = by_size.get(found[1] or "", "")
    return ElementTypes(kind, kind)


def _nvjet(name: str) -> ElementTypes | None:
    """``hsh``: operands, accumulator, result; with five letters the first two are the operands."""
    found = _NVJET.search(name)
    if found is None:
        return None
    letters = found[1]
    return ElementTypes(_SHORT.get(letters[0], ""), _SHORT.get(letters[-1], ""))


def _collective(name: str) -> ElementTypes | None:
    """Read the type of a kernel of NCCL; one that only moves data names none."""
    if "nccl" not in name[:32].lower():
        return None
    kind = reduced_type(name)
    return ElementTypes(kind, kind)


def reduced_type(name: str) -> str:
    """Element type of ``AllReduce_Sum_f32`` or ``AllReduce_RING_LL_Sum_float``; empty: none."""
    found = _REDUCED.search(name)
    return _NCCL_TYPES[found[1]] if found else ""


def _triton(name: str) -> ElementTypes | None:
    """Return the operands of two types are multiplied in the wider one."""
    found = _TRITON.search(name)
    if found is None:
        return None
    operand = min(found[2], found[3], key=[*_TRITON_TYPES].index)
    return ElementTypes(_TRITON_TYPES[operand], _TRITON_TYPES[found[1]])


def _library(name: str) -> ElementTypes | None:
    if "<" in name and "cutlass" not in name:
        return None
    if (found := _XMMA.search(name)) is not None:
        read, write = _SHORT[found[1]], _SHORT.get(found[2], "")
        return ElementTypes(
            "tf32" if "tf32" in name else read, "float32" if write == "tf32" else write or read
        )
    if ("fmha" in name or "flash" in name) and (found := _FUSED_ATTENTION.search(name)) is not None:
        kind = _SHORT.get(found[1] or "", "") or (
            "bfloat16" if found[2] == "bfloat16_t" else "float16"
        )
        return ElementTypes(kind, kind)
    if (found := _CUTLASS.search(name)) is not None:
        return _cutlass(name, found)
    if (found := _CUBLAS.search(name)) is not None:
        kind = _SHORT.get((found[1] or "").replace("int8", "i8"), "") or _by_letter(found[2], name)
        return ElementTypes(kind, "float32" if kind == "tf32" else kind)
    return None


def _cutlass(name: str, found: re.Match[str]) -> ElementTypes:
    """Read ``tensorop_bf16_s16816gemm_bf16``: result, accumulator and tile, operands."""
    result, letter, tile, _, operand = found.groups()
    read = _SHORT.get(operand or result or "", "") or _by_letter(letter, name)
    if read == "float32" and "tensorop" in found[0] and tile:
        read = "tf32"
    write = _SHORT.get(result or "", read)
    return ElementTypes(read, "float32" if write == "tf32" else write)


def _by_letter(letter: str | None, name: str) -> str:
    """Read a BLAS letter: hgemm, sgemm, dgemm; complex ones also compute real convolutions."""
    if "sgemm" in name or "scudnn" in name:
        return "float32"
    kinds = {"h": "float16", "s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
    return kinds.get(letter or "", "")


def _template(name: str) -> ElementTypes | None:
    """Return the first floating point type, or the first integer type if there is none."""
    found = _TENSOR_LISTS.search(name)
    lists = int(found[1]) if found else 0
    # The type of the scalars in a list's description is not that of the tensors.
    bare = _LITERALS.sub("", _TENSOR_LISTS.sub("", name))
    for family in (_TEMPLATE, _INTEGERS):
        starts = [(found.start(), kind) for kind, form in family if (found := form.search(bare))]
        if starts:
            kind = min(starts)[1]
            return ElementTypes(kind, kind, lists=lists)
    return ElementTypes(lists=lists) if lists else None
