"""File systems of networks are recognized by what Linux writes about its mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.system import file_systems as disks

MOUNTINFO = r"""
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /srv rw,relatime shared:5 master:2 - nfs4 storage:/srv rw,vers=4.2
31 30 0:41 / /srv/fast\040disk rw - xfs /dev/vdb rw
32 22 0:42 / /home/me/there rw - fuse.sshfs me@there: rw
33 22 0:43 / /twice rw - ext4 /dev/vdc rw
34 33 0:44 / /twice rw - cifs //there/twice rw
nonsense
"""


@pytest.fixture(autouse=True)
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    monkeypatch.setattr(disks, "MOUNTS", tmp_path / "mountinfo")


@pytest.mark.parametrize(
    ("path", "kind", "is_network"),
    [
        ("/var/lib/dlprof", "ext4", False),
        ("/srv/profiles", "nfs4", True),
        ("/srvx", "ext4", False),
        ("/srv/fast disk/state", "xfs", False),
        ("/home/me/there/state", "fuse.sshfs", True),
        ("/twice/x", "cifs", True),
    ],
)
def test_the_nearest_mount_counts(path: str, kind: str, is_network: bool) -> None:
    assert disks.file_system(Path(path)) == kind
    assert disks.is_network(kind) is is_network


def test_a_missing_or_damaged_file_gives_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "MOUNTS", tmp_path / "nope")

    assert disks.file_system(Path("/srv")) == ""
    assert not disks.is_network("")


def test_this_machine_gives_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    if disks.MOUNTS.exists():
        assert disks.file_system(Path("/"))
