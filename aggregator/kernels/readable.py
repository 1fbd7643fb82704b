"""Short readable names of kernels: library, operation, element types, then tile and layout.

A kernel's full name identifies it, and the name that Nsight Systems shortens it to says too little:
all of CUTLASS is ``Kernel2``, all of PyTorch's pointwise work ``vectorized_elementwise_kernel``.
The readable name keeps what the libraries put into their names and leaves out what is the same in
all of them::

    cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x3_nt_align1>(Params)
    cutlass gemm bf16 relu 128x256 32x3 nt align1

Different kernels may have the same readable name, so nothing is counted by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from aggregator.kernels.element_types import ElementTypes
from aggregator.kernels.names import short_name, signature_text

MAX_CHARS: Final = 60
"""Longest readable name; a longer one is cut and ends with an ellipsis."""

_SHORT_TYPES: Final = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "tf32": "tf32",
    "float64": "f64",
    "float8": "f8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "bool": "bool",
    "complex64": "c64",
    "complex128": "c128",
}
_WORDS: Final = (
    # C++ spellings in template arguments; the first match is used.
    (
        re.compile(r"(?:c10::|at::)?(?:BFloat16|__nv_bfloat162?|__hip_bfloat16|bfloat16_t)\b"),
        "bf16",
    ),
    (re.compile(r"\b(?:c10::)?(?:Half|__half2?|half_t|half2?)\b"), "f16"),
    (re.compile(r"(?:c10::)?complex<float>|\bfloat2\b"), "c64"),
    (re.compile(r"\bfloat\b"), "f32"),
    (re.compile(r"\bdouble\b"), "f64"),
    (re.compile(r"\b(?:unsigned )?(?:long long|long int|long)\b"), "i64"),
    (re.compile(r"\bunsigned (?:int|char|short)\b|\bunsigned\b"), "uint"),
    (re.compile(r"\((?:int|bool|uint|i64|[\w:]+)\)(?=-?\d)"), ""),
)
_Reader: TypeAlias = Callable[[str, "re.Match[str]", ElementTypes], str]


def readable_name(name: str, types: ElementTypes) -> str:
    """Return the readable name of a kernel."""
    text = signature_text(name)
    for pattern, read in _FAMILIES:
        if (found := pattern.search(text)) is not None and (words := read(text, found, types)):
            return _limited(words)
    return _limited(_template(text))


def _limited(words: str) -> str:
    words = " ".join(words.split())
    return words if len(words) <= MAX_CHARS else words[: MAX_CHARS - 1].rstrip(" _,<") + "…"


def _types(types: ElementTypes) -> str:
    read, write = _SHORT_TYPES.get(types.read, ""), _SHORT_TYPES.get(types.write, "")
    return f"{read}>{write}" if read and write and read != write else read or write


# --- kernels whose names are words joined by underscores -----------------------------------------

_OPERATION: Final = re.compile(
    r"(fprop|dgrad|wgrad|dwconv|gemm|sdpa|fmha|scudnn|cudnn|convolve|conv)"
)
_DROPPED: Final = re.compile(
    r"(?:cutlass|cudnn|cublas|cask|xmma|nvjet|tensorop|implicit|generated|fort|native|execute|kernel"
    r"|kernel\d|stages|f2f|bz|g1|5x|infer|ex\d|v\d|\d|7\d|80|90|100|flash|aligned"
    r"|(?:warpsize|tensor)[\dx]+|(?:[a-z]+\d?kcrs|[a-z]+krsc)|(?:c?f\d+|[bt]f\d+|fp\d+|[isu](?:8|32)|e4m3|e5m2)+|sm\d+"
    r"|[hstqodcbizr]{3,6}|n)?"
)
_REWRITTEN: Final = (
    (re.compile(r"_segment_k_on"), "_segk"),
    (re.compile(r"_segment_k_off"), ""),
    (re.compile(r"_split_k"), "_splitk"),
    (re.compile(r"tilesize"), ""),
    (re.compile(r"warpgroupsize"), "wg"),
    (re.compile(r"_aligna(\d+)_alignc\1"), r"_align\1"),
    (re.compile(r"knob_"), "knob"),
    (re.compile(r"_cga1x1x1|_optimized"), ""),
    (re.compile(r"unity_stride"), "unity"),
)


def _words_of(library: str, name: str, types: ElementTypes) -> str:
    for pattern, text in _REWRITTEN:
        name = pattern.sub(text, name)
    found = _OPERATION.search(name.removeprefix("cudnn_"))
    operation = {"scudnn": "conv", "cudnn": "conv"}.get(found[1], found[1]) if found else "gemm"
    words = [
        word
        for word in name.split("_")
        if not _DROPPED.fullmatch(word) and not _OPERATION.search(word)
    ]
    return " ".join([library, operation, _types(types), *words])


def _library(text: str, found: re.Match[str], types: ElementTypes) -> str:
    """Name a kernel of cuBLAS, cuDNN or CUTLASS, the latter by its template argument."""
    name = found[0]
    library = "cutlass" if name.startswith("cutlass") else "cublas"
    if "cudnn" in text:
        library = "cutlass" if library == "cutlass" else "cudnn"
    return _words_of("nvjet" if name.startswith("nvjet") else library, name, types)


_SHAPE: Final = re.compile(r"GemmShape<(?:\(int\))?(\d+), ?(?:\(int\))?(\d+), ?(?:\(int\))?(\d+)>")
_CUTE_SHAPE: Final = re.compile(
    r"tuple<(?:cute::)?C<(\d+)>, ?(?:cute::)?C<(\d+)>, ?(?:cute::)?C<(\d+)>"
)
_CONVOLVED: Final = re.compile(r"Conv\dd(Fprop|Dgrad|Wgrad)")
_LAYOUTS: Final = re.compile(r"layout::(RowMajor|ColumnMajor)\b")


def _cutlass_template(text: str, _: re.Match[str], types: ElementTypes) -> str:
    """Name a CUTLASS kernel without a name of its own by operation and tile of its template."""
    convolved = _CONVOLVED.search(text)
    shape = _SHAPE.search(text) or _CUTE_SHAPE.search(text)
    tile = "x".join(shape.groups()) if shape else ""
    layouts = "".join("t" if layout == "RowMajor" else "n" for layout in _LAYOUTS.findall(text)[:2])
    if "ReduceSplitK" in text:
        return f"cutlass splitk reduce {_types(types)}"
    operation = convolved[1].lower() if convolved else "gemm" if "emm" in text else ""
    return f"cutlass {operation} {_types(types)} {tile} {layouts}" if operation and tile else ""


def _nccl(_: str, found: re.Match[str], __: ElementTypes) -> str:
    return f"nccl {found[1].replace('_', ' ')}"


_TRITON_KINDS: Final = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "reduction",
    "spl": "scan",
    "for": "foreach",
    "tem": "template",
}


def _triton(_: str, found: re.Match[str], __: ElementTypes) -> str:
    """Name a kernel of TorchInductor: the fused ops, cut in the middle, and its number."""
    kind = _TRITON_KINDS.get(found[1], found[1])
    return _fused(f"triton {kind}", found[2], found[3] or "")


def _fusion(_: str, found: re.Match[str], __: ElementTypes) -> str:
    return _fused(f"xla {found[1]}", found[2] or "", found[3] or "")


def _fused(head: str, ops: str, number: str) -> str:
    ops = re.sub("_{2,}", " ", ops.strip("_"))
    room = MAX_CHARS - len(head) - len(number) - 2
    return f"{head} {ops if len(ops) <= room else ops[: room - 1] + '…'} {number}"


_TENSILE: Final = re.compile(r"_(MT\d+x\d+x\d+)_(MI\d+x\d+x\d+)?")
_TENSILE_TYPES: Final = {"B": "bf16", "H": "f16", "S": "f32", "D": "f64", "F8": "f8"}


def _tensile(text: str, found: re.Match[str], _: ElementTypes) -> str:
    """Name a matrix product of hipBLASLt or rocBLAS."""
    tile = _TENSILE.search(text)
    kind = _TENSILE_TYPES.get(found[2][0], "")
    shape = " ".join(filter(None, tile.groups())) if tile else ""
    return f"tensile gemm {kind} {shape} {found[1]} {'bias' if '_Bias_' in text else ''}"


def _attention(text: str, found: re.Match[str], types: ElementTypes) -> str:
    """Name a kernel of FlashAttention: direction, head dimension and tile."""
    direction = "bwd" if re.search(r"bwd|Bwd|backward|Backward", found[0]) else "fwd"
    numbers = re.search(r"traits<(?:\(int\))?(\d+), ?(?:\(int\))?(\d+), ?(?:\(int\))?(\d+)", text)
    shape = f"d{numbers[1]} {numbers[2]}x{numbers[3]}" if numbers else ""
    cute = None if numbers else _CUTE_SHAPE.search(text)
    shape = f"d{cute[3]} {cute[1]}x{cute[2]}" if cute else shape
    more = "splitkv" if "splitkv" in found[0] else "combine" if "combine" in found[0] else ""
    part = re.search(r"dot_do_o|convert_d\w+|[pP]reprocess|[pP]ostprocess", found[0])
    flags = "".join("1" if flag == "true" else "0" for flag in re.findall("true|false", text))
    return f"flash {direction} {more} {part[0] if part else ''} {_types(types)} {shape} {flags}"


# --- PyTorch's templates -------------------------------------------------------------------------

_WRAPPERS: Final = frozenset(
    {
        "BinaryFunctor",
        "AUnaryFunctor",
        "BUnaryFunctor",
        "UnaryFunctor",
        "ReduceOp",
        "array",
        "Array",
    }
    | {"func_wrapper_t", "OffsetCalculator", "TrivialOffsetCalculator", "TensorIterator", "Scalar"}
    | {"TensorIteratorBase", "gpu_kernel_impl", "gpu_kernel_impl_nocast", "Half", "BFloat16"}
    | {"LoadWithCast", "StoreWithCast", "LoadWithoutCast", "StoreWithoutCast", "complex", "tuple"}
    | {
        "operator",
        "lambda",
        "instance",
        "const",
        "void",
        "unnamed",
        "opmath_gpu_kernel_with_scalars",
    }
    | {"opmath_symmetric_gpu_kernel_with_scalars", "gpu_kernel_with_scalars", "GenericDims"}
    | {"float", "double", "int", "long", "bool", "char", "unsigned", "signed", "short", "size_t"}
    | {"TensorListMetadata", "TensorListScalarListMetadata", "FusedOptimizerTensorListMetadata"}
    | {"elementwise_kernel", "vectorized_elementwise_kernel", "reduce_kernel", "pair"}
)
_IDENTIFIER: Final = re.compile(
    r"(?<![\w:])(?:[\w]+::)*(?:\(anonymous namespace\)::)?([A-Za-z_]\w*)"
)
_ENDINGS: Final = re.compile(
    r"_?(?:CUDAKernelImpl|CUDAKernel|kernel|cuda|impl|Functor|functor|Ops|Op|_t)+$|_kernel(?=_)|^CUDAFunctor(?:OnSelf|OnOther)?_"
    r"|^launch_"
)
_NUMBERS: Final = re.compile(r"<(?:\(int\))?(\d+)(?:, ?(?:\(int\))?(\d+))?[,>]")
_SCALAR: Final = re.compile(r"[AB]UnaryFunctor|CUDAFunctorOn(?:Self|Other)|compare_scalar")


def _pytorch(text: str, found: re.Match[str], types: ElementTypes) -> str:
    """Name a pointwise or reducing kernel by the functor in its template arguments."""
    functor = " ".join(_functors(text[found.end() :])[:1])
    numbers = _NUMBERS.match(text, found.end() - 1)
    how = "x".join(filter(None, numbers.groups())) if numbers else ""
    kind = {"vectorized": "vec", "unrolled": "unrolled"}.get(found[1].split("_")[0], "")
    scalar = "scalar" if _SCALAR.search(text) else ""
    cast = "cast" if "WithCast" in text else ""
    operation = "reduce" if "reduce" in found[1] else "elementwise"
    return f"{operation} {functor} {scalar} {_types(types)} {kind}{how} {cast}"


def _foreach(text: str, found: re.Match[str], types: ElementTypes) -> str:
    """Name a kernel over lists of tensors: functor, operation, type, and number of lists."""
    functors = _functors(text[found.end() :])
    lists = f"lists{types.lists}" if types.lists else ""
    return " ".join(["foreach", *functors[:2], _types(types), lists])


def _functors(arguments: str) -> list[str]:
    """Names of functors in template arguments, without the endings that most of them have."""
    names = [match[1] for match in _IDENTIFIER.finditer(arguments)]
    result = []
    for name in names:
        if name not in _WRAPPERS and len(name) > 2:
            bare, previous = name, ""
            while bare != previous:
                previous, bare = bare, _ENDINGS.sub("", bare) or bare
            result.append(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", bare).lower())
    return result


# --- any other template --------------------------------------------------------------------------

_NESTED: Final = re.compile(r"<[^<>]*>")
_LIBRARIES: Final = re.compile(
    r"^(?:cask_)?(cudnn|cublas|cub|thrust|cusparse|cusolver|cufft|fbgemm_gpu|vllm|sglang|flashinfer"
    r"|tensorrt_llm|moe|ck_tile|ck|c10d|apex|deep_ep|deep_gemm|transformer_engine)\b"
)


def _template(text: str) -> str:
    """Return the namespace of a library, own name, and template arguments without theirs."""
    if text.startswith("_Z"):
        return short_name(text)
    for pattern, word in _WORDS:
        text = pattern.sub(word, text)
    head, _, arguments = text.partition("<")
    base = head.rpartition("::")[2]
    library = _LIBRARIES.match(head.removeprefix("at_cuda_detail::"))
    arguments = re.sub(r"->|=>", "", arguments.removesuffix(">"))
    while (shorter := _NESTED.sub("", arguments)) != arguments:
        arguments = shorter
    words = [argument.strip().rpartition("::")[2] for argument in arguments.split(",")]
    flags = {"true": "1", "false": "0"}
    shown = " ".join(flags.get(word, word) for word in words)
    return f"{library[1] if library and library[1] not in base else ''} {base} {shown}"


_FAMILIES: Final[tuple[tuple[re.Pattern[str], _Reader], ...]] = (
    (re.compile(r"^nccl(?:DevKernel|Kernel|SymkDevKernel|SymkKernel)_(\w+)"), _nccl),
    (re.compile(r"^triton_(poi|red|per|spl|for|tem)_(?:fused_)?(\w*?)(?:_(\d+))?$"), _triton),
    (re.compile(r"^(loop|input|wrapped|gemm)_(\w*?)_?(?:fusion)?(?:_(\d+))?$"), _fusion),
    (re.compile(r"^(fusion)()(?:_(\d+))?$"), _fusion),
    (re.compile(r"^Cijk_(A\w+?_B\w+?)_([A-Z0-9]+)_"), _tensile),
    (re.compile(r"flash_(?:fwd|bwd)\w*|FlashAttn(?:Fwd|Bwd)\w*"), _attention),
    (
        re.compile(
            r"^cudnn_generated\w+|nvjet_\w+|(?:sm\d+_xmma|cutlass(?:_\d+)?(?:_wmma)?_(?:tensorop|simt))_\w+"
        ),
        _library,
    ),
    (re.compile(r"^(?:cudnn_)?(?:maxwell|pascal|volta|turing|ampere|hopper|ada)_\w+"), _library),
    (re.compile(r"\bcutlass\w*::"), _cutlass_template),
    (re.compile(r"\bmulti_tensor_apply_kernel<"), _foreach),
    (re.compile(r"\b(\w*elementwise\w*kernel\w*|reduce_kernel)<"), _pytorch),
)
