"""Floating point operations and bytes of one operator call: a module per kind of operator."""
