"""dlprof does no harm in the process of the program, nor in those that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.harm.server import PATHS

LIMIT_S = 300


def python(
    folder: Path, script: str, *, marked: bool, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, with dlprof in it or without."""
    environment = {key: value for key, value in os.environ.items() if "DLPROF" not in key}
    path = [str(path) for path in PATHS]
    environment["PYTHONPATH"] = os.pathsep.join(path if marked else path[1:])
    environment |= {"DLPROF_NVTX": "1"} if marked else {}
    (folder / "main.py").write_text(script)
    return subprocess.run(
        [sys.executable, folder / "main.py"],
        env={**environment, **more},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


SITE = """
import sys
print("sitecustomize" in sys.modules)
try:
    import sitecustomize
    print(sitecustomize.VALUE, sitecustomize.__name__)
except ImportError as error:
    print(repr(error))
"""


@pytest.mark.parametrize("place", ["script", "path", "nowhere", "failing"])
def test_program_finds_its_own_sitecustomize(tmp_path: Path, place: str) -> None:
    more, folder = {}, tmp_path / "other"
    folder.mkdir()
    if place == "script":
        (tmp_path / "sitecustomize.py").write_text("VALUE = 'mine'")
    elif place != "nowhere":
        text = "VALUE = 'path'" if place == "path" else "raise LookupError"
        (folder / "sitecustomize.py").write_text(text)
    found = []
    for marked in (False, True):
        paths = [str(PATHS[0])] * marked + [str(folder)] * (place in {"path", "failing"})
        more = {"PYTHONPATH": os.pathsep.join(paths)}
        found.append(python(tmp_path, SITE, marked=marked, **more))
    assert found[0].stdout == found[1].stdout
    # A traceback has the line that ran it.
    assert found[0].stderr.splitlines()[-1:] == found[1].stderr.splitlines()[-1:]
    assert found[0].returncode == found[1].returncode


TRAIN = """
import time, torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
longest = 0.0
for at in range(40):
    before = time.monotonic()
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    longest = max(longest, time.monotonic() - before) if at > 3 else 0.0
print(f"{longest:.3f}")
"""


def test_dlprof_that_does_not_answer_costs_two_seconds(tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    steps.mkdir()
    more = {"DLPROF_REFERENCE": str(steps), "DLPROF_BARE_STEPS": "3"}
    # Until it has waited: on a quiet machine thousands of steps take less than a second.
    loop = "for at in range(10**5):\n    if longest > 1.0: break\n"
    script = TRAIN.replace("for at in range(40):\n", loop)
    done = python(tmp_path, script, marked=True, **more)
    assert list(steps.glob("start.*")), "the loop was not found"
    waited_s = float(done.stdout)
    # That of another process on a busy machine is longer; twenty were waited before.
    assert 2.0 <= waited_s < 20.0
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert "did not answer within 2 s" in lines[0]


CHILDREN = """
import subprocess, sys, time, torch
import torch.utils.data as data
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = data.DataLoader(torch.ones(4000, 4), batch_size=1)
for at, batch in enumerate(loader):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if at == 1:
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        subprocess.run([sys.executable, "child.py"], check=True)
        import pathlib, os
        names = pathlib.Path(os.environ["DLPROF_REFERENCE"]).glob("start.*")
        print([name.suffix == f".{os.getpid()}" for name in names])
        break
"""


def test_child_begins_nothing_for_the_process_that_has_the_loop(tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    steps.mkdir()
    (tmp_path / "child.py").write_text(TRAIN.replace("range(40)", "range(3000)"))
    done = python(tmp_path, CHILDREN, marked=True, DLPROF_REFERENCE=str(steps))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_rank_with_the_loop_begins_for_a_launcher_that_has_none(tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    steps.mkdir()
    # Until the answer, however fast the steps of this machine are.
    loop = (
        "import pathlib\n"
        "for at in range(10**7):\n"
        "    if pathlib.Path('steps/started').exists(): break\n"
    )
    (tmp_path / "child.py").write_text(TRAIN.replace("for at in range(40):\n", loop))
    launcher = (
        "import subprocess, sys, torch  # trains: optimizer.step()\n"
        "subprocess.run([sys.executable, 'child.py'], check=True)\n"
    )
    answered = threading.Event()

    def answer() -> None:
        while not answered.is_set():
            if any(steps.glob("start.*")):
                (steps / "started").touch()
                return
            time.sleep(0.01)

    thread = threading.Thread(target=answer)
    thread.start()
    more = {"DLPROF_REFERENCE": str(steps), "DLPROF_BARE_STEPS": "3"}
    try:
        done = python(tmp_path, launcher, marked=True, **more)
    finally:
        answered.set()
        thread.join()
    assert done.returncode == 0, done.stderr
    assert (steps / "started").exists()


def test_steps_that_dynamo_is_imported_in_are_the_same(tmp_path: Path) -> None:
    """PyTorch imports TorchDynamo where gradients are cleared first, with the markers in place."""
    script = TRAIN.replace('print(f"{longest:.3f}")', "print(model(torch.ones(2, 4)))")
    script = f"import torch\ntorch.manual_seed(0)\n{script}"
    found = [python(tmp_path, script, marked=marked) for marked in (False, True)]
    assert found[0].stdout == found[1].stdout != ""
    assert found[1].stderr == ""
