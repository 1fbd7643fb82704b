"""Floating point operations and bytes of ops, from what was recorded of them.

``cost`` says what is known of a call, ``registry`` finds the formula; ``kernel_types`` reads
element types off kernel names, ``peaks`` holds what GPUs can do. docs/flops.md lists formulas and
sources.
"""
