"""The page that the frontend's build writes, and the positions in it that a report fills."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggregator.errors import ReportPageMissingError
from aggregator.texts import say

#: Made by `npm run build` in frontend/; a released package holds it.
PAGE = Path(__file__).with_name("page.html")

_TITLE = "<!--dlprof:title-->"
_DATA = "<!--dlprof:data-->"


@dataclass(frozen=True)
class Page:
    """The page, split at the positions to fill."""

    before_title: str
    before_data: str
    after_data: str

    @property
    def size(self) -> int:
        """Bytes of a report without data."""
        return len((self.before_title + self.before_data + self.after_data).encode())


def require_page() -> Page:
    """Return the page to fill.

    Raises:
        ReportPageMissingError: The frontend was not built.
    """
    try:
        text = PAGE.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ReportPageMissingError(
            say("The page of the HTML report has not been built."),
            hint=say(
                "This is a checkout of the source: run `make frontend` once. A released package "
                "brings the page with it."
            ),
        ) from error
    before_title, _, rest = text.partition(_TITLE)
    before_data, _, after_data = rest.partition(_DATA)
    return Page(before_title, before_data, after_data)


def block(name: str, packed: str) -> str:
    """Return the packed data as an element; its content is a JSON string."""
    return f'<script type="application/json" id="{name}">"{packed}"</script>\n'
