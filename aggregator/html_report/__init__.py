"""The report in a single file: the viewer's own page with the data inside it, opened from disk.

The numbers are read by the declarations that the REST API is made of; the page is built from the
viewer's sources. A note marks what is left out for size.
"""

from __future__ import annotations
