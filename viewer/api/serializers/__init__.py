"""Serializers of the replies that are not rows of a declared table, one module a subject."""
