"""Did a kernel run Tensor Core instructions? Answered from its demangled name alone.

Nsight Systems records no instruction counts, so the name is all there is. It is enough for the
libraries that write operand types or the matrix instruction into it (cuBLAS, cuDNN, CUTLASS, flash
attention), and for the many kernels that multiply no matrices. It is not enough for a compiled
template or a user's kernel that is just called "matmul": those stay unknown.

The rules are tried in order, the first that matches decides:

1. code made by a compiler for one program: its name tells what it computes, not how;
2. helpers around a matrix product (split-K sums, attention's pre- and post-processing): no,
   although their names often repeat the product's;
3. a Tensor Core instruction, operand type or library family in the name: yes;
4. scalar arithmetic in the name (``simt``, ``ffma``, ``sgemm``), or a library's own scalar kernels:
   no;
5. a matrix word without any such mark, or a name that says nothing: unknown;
6. anything else: no.

Namespaces are no safe sign: tools shorten them differently (``at::native::reduce_kernel`` is
``native::reduce_kernel`` or ``at::reduce_kernel`` in a counter tool). So the rules look at the
function's own name first, and at the template arguments where those name the instruction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Capability = tuple[int, int]

FIRST_WITH_TENSOR_CORES: Final[Capability] = (7, 0)


class Verdict(NamedTuple):
    """An answer and the rule that gave it.

    Attributes:
        uses_tc: True: runs Tensor Core instructions; False: does not; None: the name cannot tell.
        evidence: The reason, one clause, for people.
    """

    uses_tc: bool | None
    evidence: str


class _KernelName(NamedTuple):
    """A kernel name taken apart.

    Attributes:
        base: The function's own name, without namespaces, template arguments and parameters; of a
            function that only runs what its template argument names, the argument's.
        text: Namespaces, base and template arguments; without result type and parameters.
    """

    base: str
    text: str


@dataclass(frozen=True)
class _Rule:
    """Names in which the pattern is found get the answer.

    Attributes:
        in_base: Look in the function's own name only, else in all but the parameter list.
        pattern: Searched for, upper and lower case alike.
        verdict: The answer and why the match proves it.
    """

    in_base: bool
    pattern: re.Pattern[str]
    verdict: Verdict


_Part = Literal["base", "text"]


def _rule(part: _Part, verdict: Verdict, patterns: tuple[str, ...]) -> _Rule:
    return _Rule(part == "base", re.compile("|".join(patterns), re.IGNORECASE), verdict)


def _yes(part: _Part, evidence: str, *patterns: str) -> _Rule:
    return _rule(part, Verdict(uses_tc=True, evidence=evidence), patterns)


def _no(part: _Part, evidence: str, *patterns: str) -> _Rule:
    return _rule(part, Verdict(uses_tc=False, evidence=evidence), patterns)


def _unknown(part: _Part, evidence: str, *patterns: str) -> _Rule:
    return _rule(part, Verdict(uses_tc=None, evidence=evidence), patterns)


# Before the helpers, whose words ("transpose", "layer_norm") a fused template repeats.
_COMPILED: Final = (
    # Inductor's pointwise, reduction, persistent reduction, foreach and scan kernels hold no dot.
    _no("base", "generated elementwise or reduction", "^triton_(poi|red|per|for|spl)_"),
    _no(
        "base",
        "XLA loop, reduction or copy fusion",
        r"^(loop|input)_\w*fusion(_\d+)?$",
        r"^fusion(_\d+)?$",
        "^wrapped_",
    ),
    # Triton puts every 8-bit dot on Tensor Cores, but FP32 ones only where TF32 is allowed, under
    # the same name as 16-bit ones: counters saw triton_tem_* and gemm_fusion_* do either.
    _yes("base", "template with 8-bit operands", "^triton_(tem|mm)_.*_(int|scaled)_mm"),
    _unknown("base", "compiled template, no data type in the name", "^triton_(tem|mm|bmm|conv)"),
    _unknown("base", "compiled fusion, no data type in the name", "gemm_fusion", "^_*triton_gemm"),
)

# Before the positive marks, which these names hold too.
_HELPERS: Final = (
    _no("base", "communication", "^nccl", "^nvshmem"),
    # cuDNN and cuBLAS launch *_execute_split_k_kernel after the product, to add up its parts.
    _no(
        "text",
        "adds up the parts of a split-K product",
        "split_?k_?reduc",
        "reduce_?split_?k",
        "execute_split_k_kernel",
    ),
    _no(
        "base",
        "prepares or finishes a product",
        "(compute|prepare|init|set).*(offset|pointer|workspace|grouped_gemm|num_blocks)",
        "kernel_helper|_helper$",
        "^matrix_to_",
    ),
    _no(
        "text",
        "attention's pre- or post-processing",
        "dot_do_o",
        "convert_(dq|dkv|dk|dv)",
        r"flash\w*_combine",
        r"(flashattn|attention)\w*(preprocess|postprocess|combine)",
    ),
)

# The instruction, its shape, an operand type that only Tensor Cores take, or a library family.
_TENSOR: Final = (
    _yes("base", "cuBLAS nvjet matrix kernel", "^nvjet_"),
    # Not just "tensorop": CUTLASS's layouts are called TensorOpMultiplicandCongruous.
    _yes("text", "CUTLASS tensorop", "_tensorop_", r"mma\w*tensorop\b", "opclass(wmma)?tensorop"),
    _yes(
        "text",
        "matrix instruction shape",
        r"_(sp)?tensor\d+(x\d+x\d+)?(_|$)",
        r"(?<![a-z0-9])[hsicdzb](884|1688|16816|16832|16864|168128|8816|8832|161616)(?!\d)",
        r"(?<![a-z])m(8n8k4|16n8k\d+|8n8k\d+|16n16k16|64n\d+k\d+)(?!\d)",
    ),
    _yes("text", "warp-group matrix instruction", "warpgroup(size|mma)"),
    _yes(
        "text",
        "matrix instruction",
        "(?<![a-z])([hiqdbuo]mma|w?gmma|wmma|mma_sync|tcgen05)(?![a-z])",
        "wmmagemm",
    ),
    _yes(
        "text",
        "CUTLASS 3 matrix instruction",
        r"mainloopsm(90|1\d\d)",
        r"sm1\d\d_mma_",
        r"sm(70|75|80|89|90|1\d\d)_\d+x\d+x\d+_",
    ),
    _yes(
        "text",
        "operand type that only Tensor Cores take",
        r"xmma.*(?<![a-z])(tf32|e4m3|e5m2)",
        r"gemm\w*_tf32",
    ),
    _yes("base", "cuDNN attention", "^cudnn_generated_fort_native_sdpa"),
    _yes(
        "base",
        "cuDNN generated matrix kernel",
        r"^cudnn_generated_fort_native_sm\d+_(conv|matmul|gemm)",
    ),
    # In FP32, memory-efficient attention multiplies in TF32 from Ampere on.
    _yes(
        "text",
        "memory-efficient attention",
        "fmha_cutlass[fb]_(f16|bf16)_",
        r"fmha_cutlass[fb]_f32_\w+_sm(8|9|1\d)\d",
        "attention(backward)?kernel<.*(half_t|bfloat16_t)",
    ),
    _yes("base", "flash attention", "flash_(fwd|bwd)"),
    _yes("text", "flash attention", "flashattn(fwd|bwd)"),
    _yes("base", "Hopper matrix kernel", r"^sm(90|1\d\d)_(fp8|bf16)_\w*gemm"),
    _yes(
        "base",
        "family known to use Tensor Cores",
        "marlin",
        "^bmm_(e2m1|e4m3|mxe|bfloat16|fp16)",
        r"^fmha(_v2|sm\d+)",
        # cuDNN on Volta and Turing.
        "dgrad_1x1_stride_2x2|first_layer_(fwd|wgrad)_kernel",
    ),
)

_SCALAR: Final = (
    _no(
        "text",
        "scalar multiply-add",
        "simt",
        "universalfma|fragmentmultiplyadd",
        "(?<![a-z])([fdhi]?fma2?|i?dp4a)(?![a-z])",
    ),
    _no("text", "FP32 operands without TF32", r"xmma_\w*_c?f32c?f32_f32f32"),
    _no("base", "memory-efficient attention in FP32 before Ampere", "^fmha_cutlass[fb]_f32"),
    # volta_fp16_sgemm... stores 16 bit and multiplies in FP32; on Tensor Cores it is s884gemm.
    _no(
        "base",
        "scalar matrix kernel",
        "^(maxwell|pascal|volta|turing|ampere)_",
        "(?<![a-z])g?[sdcz](gemm|cudnn)",
    ),
    _no("text", "matrix-vector product", "gemv", "gemmsn", "gemm_?k1"),
    _no("base", "vector dot product", "^dot_kernel"),
    _no(
        "base",
        "direct convolution on scalar units",
        r"(conv\w*|(dgrad|wgrad|fprop)\w*)_engine",
        r"^(conv|dgrad|wgrad|fprop)(\dd|nd)_(c1_k1|nchw|nhwc|shmem|alg|grouped_direct)",
        "depth_?wise",
    ),
    _no("base", "Fourier transform or Winograd convolution on scalar units", "fft", "winograd"),
    # cuDNN's persistent kernels multiply with FMA, in 16 bit too; the others run beside GEMMs.
    _no(
        "base",
        "recurrent cell on scalar units",
        "^(rnn|lstm|gru|generic|persistrnn)_(blockpersist|bidirectional|elementwise|addbias)",
        "^elemwisernn",
        "^(lstm|gru)_cell_(forward|backward)",
    ),
    # What these libraries run on Tensor Cores comes from CUTLASS, XMMA or bears a mark above.
    _no(
        "text",
        "PyTorch's own scalar kernel",
        "^(at|native|c10)::",
        r"(^|::)(weight_int8pack_mm_kernel|upsample_\w+)",
    ),
    _no("text", "scalar library kernel", r"^(cudnn|cnn|ops|cusparse|cusolver|cub|thrust)::"),
)

_UNCLEAR: Final = (
    _unknown(
        "base",
        "matrix product of unknown arithmetic",
        "gemm|matmul|mat_mul",
        "conv(?!ert)|fprop|dgrad|wgrad",
        "attention|attn|sdpa|fmha",
        "(?<![a-z])(add|baddb|b|q|int_|scaled_)?mm(?![a-z])",
        "(?-i:(?<![a-z])mma|Mma|MMA)",
        "(?<![a-z])(dot|einsum|linear|mlp|dense|rnn|lstm|gru|moe|ffn|proj|qkv)(?![a-z])",
    ),
)

_RULES: Final = (*_COMPILED, *_HELPERS, *_TENSOR, *_SCALAR, *_UNCLEAR)

_SAYS_NOTHING: Final = Verdict(uses_tc=None, evidence="the name says nothing")
_NO_PRODUCT: Final = Verdict(uses_tc=False, evidence="no matrix product in the name")
_GENERIC_WORD: Final = re.compile(
    r"(kernel|device|global|main|my|fused|cuda|gpu|func|function|impl|launch|run|test|user|entry"
    r"|triton|compute|op|fwd|bwd|forward|backward|inner|outer|stage|k|f|fn|v)?\d*",
    re.IGNORECASE,
)
# Functions that only run what their template argument names.
_WRAPPER: Final = re.compile(r"(device_?)?kernel\d*", re.IGNORECASE)
_PLAIN_TYPE: Final = re.compile(
    r"\(.*|\d.*|(unsigned |signed )?(bool|char|short|int|long|float|double)\d*( long)?|__half2?"
    r"|half|__nv_bfloat16"
)

# The first capability whose Tensor Cores take the operands; the first match decides. FP8 only in
# XMMA names: elsewhere 8-bit weights may be widened and multiplied in 16 bit.
_NEEDS: Final[tuple[tuple[re.Pattern[str], Capability], ...]] = (
    (re.compile(r"wgmma|gmma|warpgroup", re.IGNORECASE), (9, 0)),
    (re.compile(r"xmma_\w*_e[45]m[32]", re.IGNORECASE), (8, 9)),
    (
        re.compile(r"bf16|bfloat16|tf32|f64f64|[dz]884|dmma|16816|16x8x16", re.IGNORECASE),
        (8, 0),
    ),
    (re.compile(r"imma|i8816|i161616|i16832|i8i8|i8i32", re.IGNORECASE), (7, 2)),
)

_ANONYMOUS: Final = re.compile(r"<unnamed>|\(anonymous namespace\)")


def uses_tensor_cores(demangled_name: str, compute_capability: Capability) -> bool | None:
    """Whether a kernel of this name runs Tensor Core instructions; None: the name cannot tell.

    Args:
        demangled_name: The kernel's long name, with template arguments.
        compute_capability: Of the GPU it ran on, (major, minor).
    """
    return explain(demangled_name, compute_capability).uses_tc


def explain(demangled_name: str, compute_capability: Capability) -> Verdict:
    """The answer of :func:`uses_tensor_cores` and the rule that decided it."""
    if compute_capability < FIRST_WITH_TENSOR_CORES:
        return Verdict(uses_tc=False, evidence="GPU without Tensor Cores")
    verdict, needs = _verdict(demangled_name)
    if verdict.uses_tc and compute_capability < needs:
        return Verdict(uses_tc=False, evidence="operands this GPU's Tensor Cores do not take")
    return verdict


def classify(names: Sequence[str], compute_capability: Capability) -> NDArray[np.int8]:
    """The answers for many names: 1 yes, 0 no, -1 unknown.

    Args:
        names: Demangled kernel names; give each once, the rules cost microseconds a name.
        compute_capability: Of the GPU they ran on, (major, minor).
    """
    answers = (uses_tensor_cores(name, compute_capability) for name in names)
    codes = (-1 if answer is None else int(answer) for answer in answers)
    return np.fromiter(codes, dtype=np.int8, count=len(names))


@lru_cache(maxsize=16_384)
def _verdict(demangled_name: str) -> tuple[Verdict, Capability]:
    """The answer on a GPU that can run every kernel, and the capability that a yes needs."""
    name = _take_apart(demangled_name)
    for rule in _RULES:
        if rule.pattern.search(name.base if rule.in_base else name.text):
            return rule.verdict, _needed_capability(name.text)
    if all(_GENERIC_WORD.fullmatch(word) for word in name.base.split("_")):
        return _SAYS_NOTHING, FIRST_WITH_TENSOR_CORES
    return _NO_PRODUCT, FIRST_WITH_TENSOR_CORES


def _needed_capability(text: str) -> Capability:
    matches = (capability for pattern, capability in _NEEDS if pattern.search(text))
    return next(matches, FIRST_WITH_TENSOR_CORES)


def _take_apart(demangled_name: str) -> _KernelName:
    text = _function(_ANONYMOUS.sub("unnamed", demangled_name.strip()))
    head, _, arguments = text.partition("<")
    base = head.rsplit("::", 1)[-1]
    if _WRAPPER.fullmatch(base):
        argument = re.split("[<,>]", arguments, maxsplit=1)[0].strip()
        if argument and not _PLAIN_TYPE.fullmatch(argument):
            base = argument.rsplit("::", 1)[-1]
    return _KernelName(base, text)


def _function(declaration: str) -> str:
    """The declaration without its result type and its parameters.

    Both are cut at the outermost level only: template arguments hold blanks and parentheses too.
    """
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
