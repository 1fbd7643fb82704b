"""Plotly figures as plain data: tables in, ``{"data": [...], "layout": {...}}`` out.

A table is a pandas DataFrame, or a mapping from column name to values, with the columns of the REST
API. The browser, a notebook and the HTML report show the same figures.
"""
