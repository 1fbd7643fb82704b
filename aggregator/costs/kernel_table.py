"""Traits of the kernels of a profile, as far as costs depend on them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from aggregator.kernels.element_types import ElementTypes
from aggregator.kernels.traits import communication_kernels, kernel_traits, tensor_core_kernels
from aggregator.profile.arrays import Bool, Int64, Integers, dense_codes
from aggregator.profile.profile import Profile

# Helper kernels of a convolution: layout changes, splits and sums.
_HELPER = re.compile(
    r"nchwToNhwc|nhwcToNchw|generic4Channel|scalePacked|reduce_wgrad|init_device|splitK_?reduce|flip_filter|ranspose"
    r"|[oO]ffsets|gemm_pointers|fft2d_|winograd\w*(?:Data|Delta|Output|Filter)|[pP]adding|tensorTransform"
    r"|elementwise_kernel|reduce_kernel|[fF]ill|memset|convertTensor|bias|cudnn::ops::"
)


# The instruction in the names of AMD's libraries: Tensile's Cijk_.._MI16x16x1_.., mfma16.
_MATRIX_CORE = re.compile(r"^Cijk_\w*_MI\d+x\d+|mfma\d*")
_GRADIENT = re.compile(r"(dgrad|bwd_data|_bwd_gtc)|wgrad|bwd_weight|_wrw_", re.IGNORECASE)
OTHER, OF_INPUT, OF_WEIGHT = 1, 2, 4


@dataclass(frozen=True)
class KernelTable:
    """One row per distinct (kernel name, device)."""

    of_kernel: Int64  # Row of the other columns for each kernel of the profile.
    types: tuple[ElementTypes, ...]  # Element types.
    is_known: Bool  # Whether they are known.
    # Gradient of a convolution that the kernel computes: ``OTHER``, ``OF_INPUT``, ``OF_WEIGHT``; 0
    # for layout changes, sums of parts and other helpers.
    gradient: Integers
    multiplies: Bool  # Whether it may compute a matrix product.
    uses_tc: Bool  # Whether it runs instructions of Tensor Cores, or of AMD's matrix cores.
    communicates: Bool  # Whether it moves data between GPUs.


def kernel_table(profile: Profile) -> KernelTable:
    """Look up the traits of every distinct (kernel name, device)."""
    kernels = profile.kernels
    width = len(profile.devices) or 1
    key = kernels.long_name.astype(np.int64) * width + kernels.device
    unique, of_kernel = dense_codes(key)
    names = [profile.strings[code] for code in (unique // width).tolist()]
    names = names or [""]
    capabilities = [profile.devices[row].compute_capability for row in (unique % width).tolist()]
    types = _cudnn_halves(names, [kernel_traits(name).element_types for name in names])
    return KernelTable(
        of_kernel=of_kernel.astype(np.int64),
        types=types,
        is_known=np.array([bool(element.read or element.write) for element in types]),
        gradient=np.array([_gradient(name) for name in names], dtype=np.int8),
        multiplies=np.array([kernel_traits(name).may_multiply for name in names], dtype=bool),
        uses_tc=(tensor_core_kernels(names, capabilities or [None]) == 1)
        | np.array([_MATRIX_CORE.search(name) is not None for name in names]),
        communicates=communication_kernels(names),
    )


def _gradient(name: str) -> int:
    if _HELPER.search(name) or kernel_traits(name).is_helper:
        return 0
    found = _GRADIENT.search(name)
    return OTHER if found is None else OF_INPUT if found[1] else OF_WEIGHT


def _cudnn_halves(names: list[str], types: list[ElementTypes]) -> tuple[ElementTypes, ...]:
    """Resolve ``f16`` in generated kernels of cuDNN, either 16-bit type, by the other kernels."""
    either = [
        "cudnn_generated" in name and element.read == "float16"
        for name, element in zip(names, types, strict=True)
    ]
    others = {kind.read for kind, is_either in zip(types, either, strict=True) if not is_either}
    if "bfloat16" not in others or "float16" in others:
        return tuple(types)
    bfloat16 = ElementTypes("bfloat16", "bfloat16")
    return tuple(
        bfloat16 if is_either else element for element, is_either in zip(types, either, strict=True)
    )
