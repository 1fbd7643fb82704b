"""PyProf's two steps: one record per kernel with the ranges around its launch, and its cost.

Columns, order, names and defaults are those of PyProf and PyProf2, so that scripts that use their
output continue to work; docs/sources.md lists corrected errors. Text from a file is parsed as a
literal and never evaluated.
"""
