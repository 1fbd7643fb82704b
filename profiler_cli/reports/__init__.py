"""The report files of ``dlprof``."""
