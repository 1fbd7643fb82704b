"""Decide from its demangled name alone whether a kernel ran Tensor Core instructions.

Nsight Systems records no instruction counts, so only the name is available. It is sufficient for
libraries that put operand types or the matrix instruction into it (cuBLAS, cuDNN, CUTLASS, flash
attention), and for the many kernels that multiply no matrices. It is not sufficient for a compiled
template or a user's kernel that is just called "matmul": those stay unknown.

The rules are tried in order; the first that matches decides:

1. code that a compiler generated for one program: its name says what it computes, not how;
2. helpers around a matrix product (split-K sums, attention's pre- and post-processing): no,
   although their names often repeat the product's;
3. a Tensor Core instruction, operand type or library family in the name: yes;
4. scalar arithmetic in the name (``simt``, ``ffma``, ``sgemm``), or a library's own scalar kernels:
   no;
5. a matrix word without any such mark, or a name that says nothing: unknown;
6. anything else: no.

Namespaces are not reliable: tools shorten them differently (``at::native::reduce_kernel`` is
``native::reduce_kernel`` or ``at::reduce_kernel`` in a counter tool). So the rules search the
function's own name first, and the template arguments where those name the instruction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple

from aggregator.kernels.names import signature_text

Capability = tuple[int, int]

FIRST_WITH_TENSOR_CORES: Final[Capability] = (7, 0)


class Verdict(NamedTuple):
    """An answer and the rule that gave it."""

    # True: runs Tensor Core instructions; False: does not; None: the name does not say.
    uses_tc: bool | None
    evidence: str  # The reason in one clause, to show.


class _KernelName(NamedTuple):
    # The function's own name, without namespaces, template arguments and parameters. For a function
    # that only runs its template argument: that of the argument.
    base: str
    text: str  # Namespaces, base and template arguments; without result type and parameters.


@dataclass(frozen=True)
class _Rule:
    """Names in which the pattern is found get the verdict."""

    in_base: bool  # Search the function's own name only, otherwise all but the parameter list.
    pattern: re.Pattern[str]  # Ignores case.
    verdict: Verdict  # The answer and why the match proves it.


_Scope = Literal["base", "text"]


def _rule(uses_tc: bool | None, scope: _Scope, evidence: str, *patterns: str) -> _Rule:  # noqa: FBT001
    pattern = re.compile("|".join(patterns), re.IGNORECASE)
    return _Rule(scope == "base", pattern, Verdict(uses_tc, evidence))


_yes, _no, _unknown = (partial(_rule, answer) for answer in (True, False, None))


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

_COMPILED_TEMPLATES: Final = frozenset(
    rule.verdict.evidence for rule in _COMPILED if rule.verdict.uses_tc is None
)
HELPERS: Final = frozenset(rule.verdict.evidence for rule in _HELPERS)
"""Evidence of kernels that help others, and compute no product of their own."""
_OTHER_WORK: Final = frozenset(
    {"generated elementwise or reduction", "XLA loop, reduction or copy fusion"}
    | {"PyTorch's own scalar kernel", "scalar library kernel", "no matrix product in the name"}
)

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


def says_nothing(verdict: Verdict) -> bool:
    """Return whether the kernel's name does not say what it computes."""
    return verdict.evidence in (_SAYS_NOTHING.evidence, *_COMPILED_TEMPLATES)


def may_multiply(verdict: Verdict) -> bool:
    """Return whether the kernel may compute a matrix product: its name does not exclude it."""
    return verdict.evidence not in HELPERS | _OTHER_WORK


def limit_to_gpu(verdict: Verdict, needs: Capability, compute_capability: Capability) -> Verdict:
    """Correct the verdict for a GPU that has no Tensor Cores or lacks the capability it needs."""
    if compute_capability < FIRST_WITH_TENSOR_CORES:
        return Verdict(uses_tc=False, evidence="GPU without Tensor Cores")
    if verdict.uses_tc and compute_capability < needs:
        return Verdict(uses_tc=False, evidence="operands this GPU's Tensor Cores do not take")
    return verdict


def apply_rules(demangled_name: str) -> tuple[Verdict, Capability]:
    """The verdict on a GPU that can run every kernel, and the capability that a yes needs."""
    name = _split_name(demangled_name)
    for rule in _RULES:
        if rule.pattern.search(name.base if rule.in_base else name.text):
            return rule.verdict, _needed_capability(name.text)
    if all(_GENERIC_WORD.fullmatch(word) for word in name.base.split("_")):
        return _SAYS_NOTHING, FIRST_WITH_TENSOR_CORES
    return _NO_PRODUCT, FIRST_WITH_TENSOR_CORES


def _needed_capability(text: str) -> Capability:
    matches = (capability for pattern, capability in _NEEDS if pattern.search(text))
    return next(matches, FIRST_WITH_TENSOR_CORES)


def _split_name(demangled_name: str) -> _KernelName:
    text = signature_text(demangled_name)
    head, _, arguments = text.partition("<")
    base = head.rsplit("::", 1)[-1]
    if _WRAPPER.fullmatch(base):
        argument = re.split("[<,>]", arguments, maxsplit=1)[0].strip()
        if argument and not _PLAIN_TYPE.fullmatch(argument):
            base = argument.rsplit("::", 1)[-1]
    return _KernelName(base, text)
