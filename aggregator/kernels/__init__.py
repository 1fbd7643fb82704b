"""Everything derived from a kernel's name: see :func:`aggregator.kernels.traits.kernel_traits`."""
