"""PyProf's two steps: kernels with the ranges around their launch, and what each should cost.

Columns, order, names and defaults are those of PyProf and PyProf2, so that scripts over their
output go on working; docs/pyprof.md lists what was wrong there and is right here. Text from a file
is read as a literal and never evaluated.
"""
