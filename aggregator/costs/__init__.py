"""Floating point operations and bytes of ops.

``formulas`` counts one call from its sizes; the modules here find the calls in a profile and add
them up per execution of an op. ``peaks`` has the peak rates of GPUs. docs/numbers.md lists formulas
and references.
"""
