"""Did a kernel run Tensor Core instructions? Answered from its demangled name alone.

Nsight Systems records no instruction counts, so the name is all there is. It is enough for the
libraries that write operand types or the matrix instruction into it (cuBLAS, cuDNN, CUTLASS, flash
attention), and for the many kernels that multiply no matrices. It is not enough for a compiled
template or a user's kernel that is just called "matmul": those stay unknown.

The rules are tried in order, the first that matches decides:

1. helpers that surround a matrix product (split-K sums, layout changes, attention's pre- and
   post-processing): no, although their names often repeat the product's;
2. a Tensor Core instruction, operand type or library family in the name: yes;
3. scalar arithmetic in the name (``simt``, ``ffma``, ``sgemm``): no;
4. a matrix word without any such mark, or a name that says nothing: unknown;
5. anything else: no.

Namespaces decide nothing: tools shorten them differently (``at::cuda::philox::unpack_cudnn`` is
``cuda::unpack_cudnn`` in a counter tool).
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
        base: The function's own name, without namespaces, template arguments and parameters.
        text: Namespaces, base and template arguments; without the parameter list.
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


# First, because "splitKreduce of a tensorop GEMM" and "flash_bwd_dot_do_o" hold positive marks.
_HELPERS: Final = (
    _no("base", "communication", "^nccl", "^nvshmem"),
    # Inductor's pointwise, reduction, persistent reduction, foreach and scan kernels hold no dot.
    _no("base", "generated elementwise or reduction", "^triton_(poi|red|per|for|spl|split_scan)_"),
    _no("base", "XLA loop, reduction or copy fusion", "^(loop|input|wrapped)_", r"^fusion(_\d+)?$"),
    # cuDNN and cuBLAS launch *_execute_split_k_kernel after the product, to add up its parts.
    _no(
        "text",
        "adds up the parts of a split-K product",
        "split_?k_?reduc",
        "reduce_?split_?k",
        "execute_split_k_kernel",
    ),
    _no("base", "elementwise", "elementwise", "elemwise", "multi_tensor_apply"),
    _no(
        "base",
        "normalisation, reduction or copy",
        "^reduce",
        "^softmax",
        "^cunn_",
        "(batch|layer|rms|group)_?norm",
        "^bn_(fw|bw)",
        "^cat_?array",
    ),
    _no(
        "base",
        "prepares or finishes a product",
        "(compute|prepare|init|set).*(offset|pointer|workspace|grouped_gemm|num_blocks)",
        "helper",
        "precompute_",
    ),
    _no(
        "base",
        "layout or type change",
        "(nchw|nhwc)_?to|to_?(nchw|nhwc)",
        "padding",
        "im2col|col2im|vol2col|col2vol",
        "flip_filter",
        "convert_?tensor|scale_?packed",
        "transpose|permute|unpack_",
    ),
    _no(
        "base",
        "Winograd transform",
        r"winograd\w*(data|filter|output|delta|tiles)",
        "generate_?winograd",
    ),
    _no(
        "text",
        "attention's pre- or post-processing",
        "dot_do_o",
        "convert_(dq|dkv|dk|dv)",
        r"flash\w*_combine",
        r"(flashattn|attention)\w*(preprocess|postprocess|combine)",
    ),
    # The products of an RNN cell run before it, in GEMM kernels.
    _no("base", "pointwise part of an RNN", "rnn_?cell", "(lstm|gru)_?(cell|element)"),
)

# The instruction, its shape, an operand type that only Tensor Cores take, or a library family.
_TENSOR: Final = (
    _yes("base", "cuBLAS nvjet matrix kernel", "^nvjet_"),
    # Not just "tensorop": CUTLASS's layouts are called TensorOpMultiplicandCongruous.
    _yes("text", "CUTLASS tensorop", "_tensorop_", "mmatensorop", "opclass(wmma)?tensorop"),
    _yes(
        "text",
        "matrix instruction shape",
        r"_tensor\d+(x\d+x\d+)?(_|$)",
        r"(?<![a-z0-9])[hsicdzb](884|1688|16816|16832|16864|8816|8832|161616)(?!\d)",
        r"(?<![a-z])m(8n8k4|16n8k\d+|8n8k\d+|16n16k16)(?!\d)",
    ),
    _yes("text", "warp-group matrix instruction", "warpgroup(size|mma)"),
    _yes(
        "text",
        "matrix instruction",
        "(?<![a-z])([hiqdbuo]mma|w?gmma|wmma|mma_sync|tcgen05)(?![a-z])",
    ),
    _yes(
        "text",
        "CUTLASS 3 matrix instruction",
        "warpspecializedgmma|tmagmma",
        r"mainloopsm(90|1\d\d)",
        r"sm1\d\d_mma_",
        r"sm(70|75|80|89|90|1\d\d)_\d+x\d+x\d+_",
    ),
    _yes("text", "operand type that only Tensor Cores take", r"xmma_\w*_(tf32|e4m3|e5m2)"),
    _yes("base", "cuDNN attention", "^cudnn_generated_fort_native_sdpa"),
    # In FP32, memory-efficient attention multiplies in TF32 from Ampere on.
    _yes(
        "base",
        "memory-efficient attention",
        "^fmha_cutlass[fb]_(f16|bf16)_",
        r"^fmha_cutlass[fb]_f32_\w+_sm(8|9|1\d)\d",
    ),
    _yes(
        "text",
        "flash attention",
        r"(?<!\w)flash_(fwd|bwd)",
        r"flash::\w*(fwd|bwd)",
        "flashattn(fwd|bwd)",
    ),
    _yes("base", "Hopper matrix kernel", r"^sm(90|1\d\d)_(fp8|bf16)_\w*gemm"),
    _yes(
        "base",
        "family known to use Tensor Cores",
        "marlin",
        "^bmm_(e2m1|e4m3|mxe|bfloat16|fp16)",
        "^fmha_v2",
    ),
)

_SCALAR: Final = (
    _no(
        "text",
        "scalar multiply-add",
        "simt",
        "universalfma",
        "(?<![a-z])([fdhi]fma2?|i?dp4a)(?![a-z])",
    ),
    _no("text", "FP32 operands without TF32", r"xmma_\w*_c?f32c?f32_f32f32"),
    _no("base", "memory-efficient attention in FP32 before Ampere", "^fmha_cutlass[fb]_f32"),
    # volta_fp16_sgemm... stores 16 bit and multiplies in FP32; on Tensor Cores it is s884gemm.
    _no("base", "scalar matrix kernel", "(?<![a-z])[sdczh](gemm|cudnn)(?![a-z])", "[sdcz]gemm"),
    _no("text", "matrix-vector product", "gemv", "gemmsn", "gemm_?k1"),
    _no("base", "vector dot product", "^dot_kernel"),
    _no(
        "base",
        "direct convolution on scalar units",
        r"(conv\w*|(dgrad|wgrad|fprop)(_alg\d)?)_engine",
        "grouped_direct|c1_k1|shmem_tiling|depth_?wise",
    ),
    _no("base", "Fourier transform or Winograd convolution on scalar units", "fft", "winograd"),
)

_UNCLEAR: Final = (
    _unknown("base", "compiled template: the name has no data type", "^triton_(tem|mm|bmm)"),
    _unknown("base", "compiled matrix fusion: the name has no data type", "gemm_fusion"),
    _unknown(
        "base",
        "matrix product of unknown arithmetic",
        "gemm|matmul|mat_mul",
        "conv(?!ert)|fprop|dgrad|wgrad",
        "attention|attn|sdpa|fmha|linear",
        "(?<![a-z])[bq]?mm(?![a-z])",
        "(?-i:(?<![a-z])mma|Mma|MMA)",
        "(?<![a-z])(dot|einsum|mlp|dense|rnn|lstm|gru|moe|ffn|proj|qkv)(?![a-z])",
    ),
)

_RULES: Final = (*_HELPERS, *_TENSOR, *_SCALAR, *_UNCLEAR)

_SAYS_NOTHING: Final = Verdict(uses_tc=None, evidence="the name says nothing")
_NO_PRODUCT: Final = Verdict(uses_tc=False, evidence="no matrix product in the name")
_GENERIC_WORD: Final = re.compile(
    r"(kernel|device|global|main|my|fused|cuda|gpu|func|function|impl|launch|run|test|user|entry"
    r"|compute|op|k|f|fn|v)?\d*",
    re.IGNORECASE,
)
# Functions that only launch what their template argument names.
_WRAPPER: Final = re.compile(r"(device_?|global_?)?kernel\d*", re.IGNORECASE)

# The first capability whose Tensor Cores take the operands; the first match decides.
_NEEDS: Final[tuple[tuple[re.Pattern[str], Capability], ...]] = (
    (re.compile(r"wgmma|gmma|warpgroup|sm90|nvjet", re.IGNORECASE), (9, 0)),
    (re.compile(r"e4m3|e5m2", re.IGNORECASE), (8, 9)),
    (re.compile(r"bf16|bfloat16|tf32|f64f64|[dz]884|dmma|16816|16x8x16", re.IGNORECASE), (8, 0)),
    (re.compile(r"imma|i8816|i161616|i16832|i8i8|i8i32", re.IGNORECASE), (7, 2)),
)

_ANONYMOUS: Final = re.compile(r"<unnamed>|\(anonymous namespace\)")
_RETURN_TYPE: Final = re.compile(r"^(?:(?:static|inline|__global__)\s+)*void\s+")


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
    if _WRAPPER.fullmatch(name.base):
        # Judge `device_kernel<Gemm<...>>` by its argument.
        name = _KernelName(base=name.text, text=name.text)
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
    plain = _RETURN_TYPE.sub("", _ANONYMOUS.sub("unnamed", demangled_name.strip()))
    head = re.split(r"[<(]", plain, maxsplit=1)[0]
    end = len(head)
    if plain[end : end + 1] == "<":
        end = _closing_bracket(plain, end)
    return _KernelName(base=head.rsplit("::", 1)[-1].strip(), text=plain[:end])


def _closing_bracket(text: str, start: int) -> int:
    """Where the template argument list that opens at ``start`` ends."""
    depth = 0
    for index in range(start, len(text)):
        if text[index] == "<":
            depth += 1
        elif text[index] == ">" and text[index - 1] != "-":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)
