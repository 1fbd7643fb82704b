"""Metadata hook: addresses of the project, and a description whose links lead there.

The repository does not name where it is hosted. ``DLPROF_REPOSITORY`` does, or the variables of a
workflow of GitHub; without either the description is README.md as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"(!\[[^\]]*\]\(|<img [^>]*src=\")(?!https?:|#|data:)([^)\"\s]+)")
_LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)\s]+)")


def repository() -> str:
    """Return the address of the repository, or an empty text if it is unknown."""
    address = os.environ.get("DLPROF_REPOSITORY", "")
    if not address and (name := os.environ.get("GITHUB_REPOSITORY")):
        address = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    return address.rstrip("/")


def absolute_links(text: str, address: str, tag: str) -> str:
    """Return a page of the repository whose links and pictures are found from elsewhere, too."""
    # Pictures first: what is left then are links, also those around pictures.
    text = _IMAGE.sub(rf"\g<1>{address}/raw/{tag}/\g<2>", text)
    return _LINK.sub(rf"\g<1>{address}/blob/{tag}/\g<2>", text)


class AddressesHook(MetadataHookInterface):
    """Fills in the fields that pyproject.toml declares as dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add description and addresses."""
        text = Path(self.root, "README.md").read_text("utf-8")
        address, tag = repository(), f"v{metadata['version']}"
        if address:
            text = absolute_links(text, address, tag)
            metadata["urls"] = {
                "Homepage": address,
                "Documentation": f"{address}/tree/{tag}/docs",
                "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
                "Issues": f"{address}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
