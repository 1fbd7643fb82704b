"""The reader of snapshots gives what unpickling gives, and runs nothing."""

from __future__ import annotations

import copy
import os
import pickle
import pickletools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from aggregator.errors import ProfileError
from aggregator.sources.memory import read_memory
from aggregator.sources.memory.pickle_bytes import PickleBytes
from aggregator.sources.memory.pickled import read_pickle
from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory
from tests.memory.pickles import SNAPSHOTS, event, frame, load, segment, write


def assert_same(path: Path, content: dict[str, Any]) -> None:
    """Compare all events with those of Python's own unpickler."""
    memory = read_memory(path)
    known = {trace.device: trace.events for trace in memory.devices}
    stacks = memory.stacks
    for device, expected in enumerate(content["device_traces"]):
        if not expected:
            continue
        events = known[device]
        assert len(events) == len(expected)
        assert events.address.tolist() == [one.get("addr", 0) for one in expected]
        assert events.size.tolist() == [one["size"] for one in expected]
        assert events.time_ns.tolist() == [one["time_us"] * 1000 for one in expected]
        notes = [memory.notes[note] for note in events.note.tolist()]
        assert notes == [one.get("user_metadata", "") for one in expected]
        for stack, one in zip(events.stack.tolist(), expected, strict=True):
            frames = [
                (stacks.names[number], stacks.files[number], stacks.lines[number])
                for number in stacks.frames[stack]
            ]
            assert frames == [(f["name"], f["filename"], f["line"]) for f in one["frames"]]


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_all_events_of_public_snapshots_are_read(profile: ProfileFactory, name: str) -> None:
    path = profile(name)
    assert_same(path, load(path))


def some_events(count: int, **more: Any) -> list[dict[str, Any]]:
    """Events with stacks that are shared, new, empty and extended."""
    frames = [frame(f"function {number}", "train.py", number) for number in range(40)]
    stacks = [frames[first : first + 5] for first in range(20)] + [[], frames[:1]]
    return [
        event(
            ("alloc", "free_requested", "free_completed")[number % 3],
            0x7F00_0000_0000 + 512 * (number % 97),
            (1, 300, 70_000, 1 << 31, 1 << 40)[number % 5],
            1_700_000_000_000_000 + number,
            user_metadata=f"F|layer{number % 7}" if number % 2 else "",
            frames=list(stacks[number % 22]) if number % 4 else stacks[number % 22],
            **more,
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_all_protocols_and_layouts_give_the_same(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "snapshot.pickle"
    content = {
        "segments": [segment(1 << 40, [(512, 4, "active_allocated"), (1536, 0, "inactive")])],
        "device_traces": [some_events(3000), [], some_events(1700, pool_id=(0, 0))],
    }
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    assert_same(path, content)


def test_repeated_events_and_lists_are_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    events = some_events(500) * 5
    content = {"segments": [], "device_traces": [events, events[:700]]}
    path.write_bytes(pickle.dumps(content, protocol=4))
    assert_same(path, content)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_frames_and_texts_that_are_written_out_are_read(tmp_path: Path, protocol: int) -> None:
    """Copies of events have frames of their own, which first occur inside of a list of frames."""
    path = tmp_path / "snapshot.pickle"
    by_event = [copy.deepcopy(one) for one in some_events(700)]
    by_run = copy.deepcopy(some_events(700)) + copy.deepcopy(some_events(700))
    again = pickle.loads(pickle.dumps(some_events(600)))
    text = "".join(("F|", "shared"))
    noted = [{**one, "user_metadata": "".join((text, str(n // 3)))} for n, one in enumerate(again)]
    for first, second in zip(noted[::2], noted[1::2], strict=True):
        second["user_metadata"] = first["user_metadata"]
    events = [*some_events(300), *by_event, *by_run, *again, *noted, *by_event]
    content = {"segments": [], "device_traces": [events]}
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    assert_same(path, content)


class RunsCode:
    """Unpickling this writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.target}",))


def nested(levels: int) -> bytes:
    return b"\x80\x04" + b"]\x94" * levels + b"a" * (levels - 1) + b"."


def nested_dicts(levels: int) -> bytes:
    return b"\x80\x04" + b"}\x94K\x01" * levels + b"N" + b"s" * levels + b"."


HUGE = (10**12).to_bytes(8, "little")
ATTACKS = {
    "10,000 lists": nested(10_000),
    "10,000 dictionaries": nested_dicts(10_000),
    "10,000 marks": b"\x80\x04" + b"(" * 10_000 + b"t" * 10_000 + b".",
    "10,000 tuples": b"\x80\x04)" + b"\x85" * 10_000 + b".",
    "text of 10^12": b"\x80\x04\x8d" + HUGE + b"text",
    "bytes of 10^12": b"\x80\x04\x8e" + HUGE + b"text",
    "frame of 10^12": b"\x80\x04\x95" + HUGE + b"}.",
    "memo entry 2^32": b"\x80\x02]r\xff\xff\xff\xff.",
    "integer of 10^9": b"\x80\x04\x8b\x00\xca\x9a\x3b1234",
    "global": b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00trueR.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "instance": b"\x80\x02(S'true'\nios\nsystem\n.",
    "persistent": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "extension": b"\x80\x02\x82\x01.",
    "empty stack": b"\x80\x04a.",
    "memo that is not there": b"\x80\x04j\xff\xff\x00\x00.",
    "text as list": b"\x80\x04\x8c\x01aK\x01a.",
    "no snapshot": b"\x80\x04}.",
    "frames without end": b"\x80\x04]\x94" + b"h\x00a" * 100_000 + b".",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(ATTACKS[name])
    start = time.process_time()
    with pytest.raises(ProfileError) as error:
        read_memory(path)
    # Milliseconds; what is endless computes until then.
    assert time.process_time() - start < 20
    assert error.value.message.count("\n") == 0
    assert error.value.message.endswith(".")


def test_code_in_a_snapshot_is_not_run_and_is_named(tmp_path: Path) -> None:
    target = tmp_path / "made"
    path = write(tmp_path / "snapshot.pickle", [some_events(50)], [], bad=RunsCode(target))
    with pytest.raises(ProfileError, match="STACK_GLOBAL"):
        read_memory(path)
    assert not target.exists()


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.9999])
def test_a_cut_file_is_named_as_such(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "snapshot.pickle", [some_events(2000)], [])
    raw = path.read_bytes()
    path.write_bytes(raw[: max(2, int(len(raw) * share))])
    with pytest.raises(ProfileError, match="cut off"):
        read_memory(path)


@pytest.mark.parametrize("share", [0.5, 0.9999])
def test_a_large_cut_file_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    path = write(tmp_path / "snapshot.pickle", [some_events(20_000)], [])
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    monkeypatch.setattr(PickleBytes, "refill", lambda _: pytest.fail("reads it"))
    with pytest.raises(ProfileError, match="cut off"):
        read_memory(path)


def test_a_snapshot_of_no_device_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[], []]}))
    assert main(["memory", str(path)]) == 4
    assert "holds no recording of GPU memory. [PROFILE_UNSUPPORTED]" in capsys.readouterr().err


def test_refusals_of_the_command_are_small_and_have_no_traceback(tmp_path: Path) -> None:
    cut = pickle.dumps({"segments": [], "device_traces": [some_events(2000)]}, protocol=4)
    attacks = {**ATTACKS, "cut": cut[:-1000]}
    for number, raw in enumerate(attacks.values()):
        (tmp_path / f"{number:02}.pickle").write_bytes(raw)
    script = (
        "import re, sys; from profiler_cli.dlprof import main; "
        "codes = {main(['memory', path]) for path in sys.argv[1:]}; "
        # Not ru_maxrss, which begins with that of the process that started this one.
        "print(re.search('VmHWM:[^0-9]*([0-9]+)', open('/proc/self/status').read())[1]); "
        "sys.exit(max(codes) if len(codes) == 1 else 99)"
    )
    files = sorted(str(path) for path in tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", script, *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    # A sentence and a hint of each.
    assert len(done.stderr.splitlines()) == 2 * len(files)
    assert int(done.stdout) < 200_000  # kB


def test_a_large_snapshot_is_read_without_an_object_per_event(tmp_path: Path) -> None:
    path = write(tmp_path / "snapshot.pickle", [some_events(20_000)], [])
    start = time.process_time()
    _, columns = read_pickle(path)
    took = time.process_time() - start
    assert columns.count == 20_000
    # One opcode after the other takes several times as long, on any machine.
    start = time.process_time()
    assert sum(1 for _ in pickletools.genops(path.read_bytes())) > 20_000
    assert took < (time.process_time() - start) / 2
