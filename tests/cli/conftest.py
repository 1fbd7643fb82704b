"""The command in processes of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.forking import Forks


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with Forks(tmp_path_factory.mktemp("forks")) as found:
        yield found
