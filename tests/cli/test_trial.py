"""``dlprof trial``: programs run in turn, are ended, and what they say is shown and remembered."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aggregator.answers.trials import FILE, read_trials
from aggregator.compare.result import Verdict
from aggregator.compare.trials import TrialRun
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from profiler_cli.dlprof import main
from profiler_cli.trial import captures, command
from profiler_cli.trial import runs as trial_runs
from profiler_cli.trial.runs import Trial, TrialPlan, run_trial
from tests.conftest import ProfileFactory

REPOSITORY = Path(__file__).resolve().parents[2]
#: How long a test waits before it fails; a loaded machine may need some of it.
LIMIT_S = 120

#: Says that its steps are timed as the markers do, and goes on as a training does.
STAND_IN = """
import json, os, signal, subprocess, sys, time
what, step_ns = sys.argv[1], int(sys.argv[2])
folder, pid = os.environ["DLPROF_REFERENCE"], os.getpid()
if what == "fail":
    print("first line"); print("CUDA out of memory", flush=True); sys.exit(3)
if what == "killed":
    os.kill(pid, signal.SIGKILL)
if what == "print":
    size = 0
    while (now := os.fstat(1).st_size) >= size:
        size = now
        print("x" * (1 << 16), flush=True)
    print("it became smaller", flush=True); sys.exit(4)
if what == "quiet":
    sys.exit(0)
if what == "hang":
    time.sleep(600)
if what == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if what == "unmarked":
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)", sys.argv[3]],
                     env={})
if what == "children":
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)", sys.argv[3]],
                     start_new_session=True)
for rank in range(2) if what == "ranks" else [""]:
    name = f"{pid}{rank}"
    open(f"{folder}/loop.{name}", "w").close()
    steps = [step_ns * (1 + (rank or 0))] * int(os.environ["DLPROF_BARE_STEPS"])
    content = {"pid": pid, "rank": str(rank), "bare": {"host_ns": steps},
               "losses": [1.5, os.environ.get("LOSS") or 1.4], "samples": 8}
    json.dump(content, open(f"{folder}/steps.{name}.json", "w"))
    open(f"{folder}/done.{name}", "w").close()
time.sleep(600)
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., str]:
    path = tmp_path / "stand_in.py"
    path.write_text(STAND_IN)
    return lambda what="train", step_ms=30.0, more="": shlex.join(
        [sys.executable, "-S", str(path), what, str(round(1e6 * step_ms)), *[more] * bool(more)]
    )


def _tried(*commands: str, repeats: int = 2, **more: Any) -> Trial:
    return run_trial(TrialPlan(commands, repeats=repeats, steps=50, seed=1, **more))


def _processes_with(text: str) -> list[str]:
    """Command lines of this machine that hold a text."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in words and entry.name != str(os.getpid()):
            found.append(words.decode())
    return found


# --- running --------------------------------------------------------------------------------------


def test_variants_run_in_turn_and_are_ended_when_their_steps_are_timed(
    program: Callable[..., str], tmp_path: Path
) -> None:
    trial = _tried(program(), program(step_ms=20.0), repeats=3)
    rounds = [{run.variant for run in trial.runs[at : at + 2]} for at in (0, 2, 4)]
    assert rounds == [{0, 1}] * 3
    (found,) = trial.estimates()
    assert (found.verdict, round(found.change_pct or 0, 1)) == (Verdict.FASTER, -33.3)
    assert all(run.seconds < LIMIT_S and run.steps == 50 for run in trial.runs)
    assert _processes_with(str(tmp_path)) == []


@pytest.mark.parametrize("kind", ["children", "unmarked", "stubborn"])
def test_no_process_of_a_run_is_left(
    program: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(trial_runs, "_KILL_S", 0.5)
    trial = _tried(program(kind, more=str(tmp_path / "child")), program(), repeats=1)
    assert trial.measured(0) == 1
    assert _processes_with(str(tmp_path)) == []


def test_variant_that_fails_is_said_and_the_others_are_measured(
    program: Callable[..., str],
) -> None:
    trial = _tried(program(), program("fail"), program("killed"), program(step_ms=20.0), repeats=2)
    assert trial.given_up == {1: "failed with exit code 3", 2: "was ended by SIGKILL"}
    assert [trial.measured(at) for at in range(4)] == [2, 0, 0, 2]
    (failed,) = (run for run in trial.runs if run.variant == 1)
    assert failed.last_lines == ("first line", "CUDA out of memory")
    assert [found.reason for found in trial.estimates()][:2] == [
        "the variant failed with exit code 3",
        "the variant was ended by SIGKILL",
    ]


def test_variant_that_hangs_is_ended_at_its_limit(
    program: Callable[..., str], tmp_path: Path
) -> None:
    trial = _tried(program("hang"), program(), repeats=1, limit_s=0.3)
    assert trial.given_up[0] == "was not timed within 0.3 s (--time-limit)"
    assert _processes_with(str(tmp_path)) == []


def test_output_without_end_takes_little_space(
    program: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_runs, "_MOST_OUTPUT_BYTES", 1 << 20)
    trial = _tried(program("print"), program(), repeats=1)
    assert trial.given_up[0] == "failed with exit code 4"
    (run,) = (run for run in trial.runs if run.variant == 0)
    assert run.last_lines[-1] == "it became smaller"


def test_the_slowest_rank_is_the_pace_of_the_job(program: Callable[..., str]) -> None:
    trial = _tried(program("ranks"), program(), repeats=1)
    (run,) = (run for run in trial.runs if run.variant == 0)
    assert (run.step_ns, run.ranks, run.samples) == (60e6, 2, 16.0)


def test_settings_before_a_program_are_its_environment(program: Callable[..., str]) -> None:
    trial = _tried(program(), f"LOSS=nan {program()}", repeats=2)
    assert trial.estimates()[0].losses_note == "that of step 2 is nan"


def test_python_path_of_a_variant_is_added_to_that_of_the_timing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/before")
    found = trial_runs.with_settings(os.environ, {"PYTHONPATH": "src", "A": "1"})
    assert (found["PYTHONPATH"], found["A"]) == (f"/before{os.pathsep}src", "1")
    assert trial_runs.with_settings({}, {"PYTHONPATH": "src"}) == {"PYTHONPATH": "src"}


def test_trial_goes_on_while_nothing_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_runs, "check_plan", lambda _: None)
    times = {0: [100, 100.2, 99.8] * 2, 1: [102.2, 102.9, 101.4] * 2}
    left = {variant: iter(values) for variant, values in times.items()}
    plan = TrialPlan(("a", "b"), repeats=5)
    trial = run_trial(plan, measure=lambda _, at, n: TrialRun(at, n, 1e6 * next(left[at]), steps=9))
    first = Trial(plan, trial.runs[:6]).estimates()[0]
    assert first.verdict is Verdict.CANNOT_TELL
    assert trial.measured(1) > 3


def test_variant_that_fails_now_and_then_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_runs, "check_plan", lambda _: None)
    failing = iter([False, True, False, False, True, False])

    def measure(_: TrialPlan, variant: int, number: int) -> TrialRun:
        if variant and next(failing):
            return TrialRun(variant, number, failure="failed with exit code 1")
        return TrialRun(variant, number, 3e7 + 1e6 * number, steps=50)

    trial = run_trial(TrialPlan(("a", "b"), repeats=6, may_stop_early=False), measure=measure)
    assert trial.measured(1) == 3
    assert trial.given_up == {1: "failed with exit code 1"}


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step_ms", "options", "code"),
    [
        (20.0, (), 0),
        (30.0, (), 0),
        (40.0, (), 10),
        (30.6, (), 0),
        (40.0, ("--max-slowdown", "50%"), 0),
        (20.0, ("--repeats", "1"), 14),
    ],
)
def test_exit_codes_are_those_of_compare(
    program: Callable[..., str], step_ms: float, options: tuple[str, ...], code: int
) -> None:
    words = ["trial", "--base", program(), "--try", program(step_ms=step_ms), "--repeats", "3"]
    assert main([*words, *options]) == code


def test_reports_are_written_by_their_suffix(
    program: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["trial", "--base", program(), "--try", program(step_ms=20.0), "--repeats", "3"]
    files = [tmp_path / f"trial.{suffix}" for suffix in ("json", "md", "txt")]
    assert main([*words, *(f"--report={file}" for file in files), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(files[0].read_text())
    assert printed["variants"][0]["sentence"].startswith("33.3 % faster (30 -> 20 ms")
    assert "33.3 % faster" in files[1].read_text()
    assert "33.3 % faster" in files[2].read_text()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "A base and a variant are needed"),
        (["--base", "true"], 2, "A base and a variant are needed"),
        (["--base", "true", "--try", "no-such-program"], 2, "was not found"),
        (["--base", "true", "--try", "'"], 2, "cannot be read"),
        (["--base", "true", "--try", "A=1"], 2, "names no program"),
        (["--base", "true", "--try", "true", "--steps", "0"], 2, "--steps must be from 3"),
        (["--base", "true", "--try", "true", "--repeats", "0"], 2, "--repeats must be from 1"),
        (["--base", "true", "--try", "true", "--time-limit", "nan"], 2, "--time-limit must be"),
        (["--base", "true", "--try", "true", "--advice", "x", "--whatif", "y"], 2, "Give either"),
        (["--base", "true", "--try", "true", "--advice", "a", "--advice", "b"], 2, "more predict"),
        (["--base", "true", "--try", "true", "--whatif", "no-such"], 2, "no-such"),
        (["--base", "true", "--try", "true", "--database", "none.sqlite"], 5, "none.sqlite"),
        (["--base", "true", "--try", "true", "--report", "no/x.md"], 2, "no such folder"),
        (["--base", "true", "--try", "true", "--report", "x.png"], 2, "suffixes"),
        (["--base", "true", "--try", "true"], 3, "no process of it used PyTorch"),
        (["--base", "false", "--try", "true"], 3, "the base failed with exit code 1"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["trial", *words]) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_shows_what_was_measured_and_leaves_no_process(
    program: Callable[..., str], tmp_path: Path, number: signal.Signals
) -> None:
    words = ["trial", "--repeats=50", "--no-early-stop", "--base", program(), "--try"]
    with subprocess.Popen(
        [sys.executable, "-m", "profiler_cli.dlprof", *words, program(step_ms=20.0)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("run 5 "):
                break
        process.send_signal(number)
        out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number
    assert "Interrupted: these are the runs that had ended." in out
    assert "33.3 % faster (30 -> 20 ms" in out or "Cannot tell (30 -> 20 ms" in out
    deadline = time.monotonic() + LIMIT_S
    while _processes_with(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _processes_with(str(tmp_path)) == []


def test_signal_whose_exception_was_dropped_ends_the_trial_after_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = TrialPlan(
        (shlex.join([sys.executable, "base.py"]), shlex.join([sys.executable, "try.py"]))
    )

    def measure(*_: object) -> TrialRun:
        with suppress(KeyboardInterrupt):  # As Python does where a finalizer raises it.
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        return TrialRun(0, 0, step_ns=1, steps=1)

    with command._signals_as_interrupt() as received:
        trial = run_trial(plan, lambda run: command._progress(plan, run, received), measure)
    assert (trial.is_interrupted, len(trial.runs)) == (True, 1)
    assert capsys.readouterr().err.startswith("run 1 of at most 10")


# --- memory ---------------------------------------------------------------------------------------


@pytest.fixture
def database(imported: ProfileFactory, tmp_path: Path) -> Path:
    path = tmp_path / "gpt.sqlite"
    path.write_bytes(imported("gpt").read_bytes())
    return path


def _first_advice(database: Path) -> tuple[str, float]:
    with opened(database, time_limit_s=60) as source:
        rows = source.rows(
            "SELECT advice_name, gain_pct FROM view_advice WHERE gain_pct > 0 AND aggr_id = "
            "(SELECT max(aggr_id) FROM view_aggregations) ORDER BY place"
        )
    return str(rows[0][0]), float(rows[0][1])


def test_prediction_of_an_advice_is_remembered_with_what_was_measured(
    program: Callable[..., str], database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, gain_pct = _first_advice(database)
    words = ["trial", "--base", program(), "--try", program(step_ms=20.0), "--repeats", "3"]
    assert main([*words, "--database", str(database), "--advice", name]) == 0
    sentence = f"Predicted (advice {name}, "
    assert sentence in capsys.readouterr().out
    with opened(database, time_limit_s=60) as source:
        found = read_trials(AggregationData(source, {"aggr_id": 1}))
    (trial,) = found.trials
    assert trial.prediction is not None
    assert trial.prediction.change_pct == pytest.approx(-gain_pct)
    assert trial.change_pct == pytest.approx(-100 / 3)
    assert trial.error_points == pytest.approx(100 / 3 - gain_pct)
    assert main(["show", str(database)]) == 0
    assert sentence in " ".join(capsys.readouterr().out.split())
    assert main(["trial", "--replay", "--database", str(database)]) == 0
    assert f"advice {name}" in capsys.readouterr().out


def test_prediction_of_a_what_if_is_that_of_the_replay(
    program: Callable[..., str], database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["trial", "--base", program(), "--try", program(step_ms=20.0), "--repeats", "3"]
    more = ["--database", str(database), "--whatif", "speedup=kernels=2x", "--json"]
    assert main([*words, *more]) == 0
    predicted = json.loads(capsys.readouterr().out)["variants"][0]["prediction"]
    assert (predicted["kind"], predicted["name"]) == ("what-if", "speedup=kernels=2x")
    assert main(["whatif", str(database), "--speedup=kernels=2x", "--format=json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert asked["saving_ns"] > 0
    expected = -100 * asked["saving_ns"] / asked["measured_step_ns"]
    assert predicted["change_pct"] == pytest.approx(expected)


def test_unknown_advice_is_refused_before_anything_runs(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--base", "true", "--try", "true", "--database", str(database), "--advice", "no_such"]
    assert main(["trial", *words]) == 2
    error = capsys.readouterr().err
    assert "The profile has no advice 'no_such'." in error
    assert _first_advice(database)[0] in error


def test_verdict_stays_where_a_trial_cannot_be_remembered(
    program: Callable[..., str], database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.with_name(FILE).mkdir()
    words = ["trial", "--base", program(), "--try", program(step_ms=40.0), "--repeats", "3"]
    assert main([*words, "--database", str(database)]) == 10
    assert "cannot be remembered" in capsys.readouterr().err


def test_lines_that_are_no_trials_are_counted(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = database.with_name(FILE)
    file.write_bytes(b'{"at": 1}\n\xff\xfe\n[[[[\n\n' + b"[" * 100_000 + b"\n")
    with opened(database, time_limit_s=60) as source:
        found = read_trials(AggregationData(source, {"aggr_id": 1}))
    assert (found.count, found.unreadable) == (0, 4)
    assert main(["trial", "--replay", "--database", str(database)]) == 0
    assert "4 lines of" in capsys.readouterr().out


def test_another_profile_of_the_folder_does_not_show_the_trial(
    program: Callable[..., str], database: Path
) -> None:
    words = ["trial", "--base", program(), "--try", program(), "--repeats", "2"]
    main([*words, "--database", str(database)])
    other = database.with_name("other.sqlite")
    other.write_bytes(database.read_bytes())
    with opened(other, time_limit_s=60) as source:
        assert read_trials(AggregationData(source, {"aggr_id": 1})).count == 0


# --- captures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_captured", [True, False])
def test_captures_are_compared_or_it_is_said_why_not(
    program: Callable[..., str],
    imported: ProfileFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    is_captured: bool,
) -> None:
    asked = []

    def capture(command: str, folder: Path, limit_s: float) -> Path | str:
        asked.append(folder.name)
        assert limit_s > 30
        if not is_captured:
            return "launched no GPU work"
        folder.mkdir(parents=True)
        return Path(shutil.copy(imported("gpt"), folder))

    monkeypatch.setattr(captures, "_capture", capture)
    words = ["trial", "--base", program(), "--try", program("fail"), "--try", program()]
    words += ["--repeats", "1", "--profile", "--output_path", str(tmp_path / "captures")]
    assert main(words) == 14
    text = capsys.readouterr().out
    if is_captured:
        assert asked == ["base", "try2"]
        assert "\ntry 2 against the base, captured\n" in text
        assert "mean step, as profiled" in text
    else:
        assert asked == ["base"]
        assert "The base was not captured: launched no GPU work" in text


# --- PyTorch --------------------------------------------------------------------------------------

TRAIN = """
import sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
rows = int(sys.argv[1])
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.arange(16.0 * rows).reshape(rows, 16) / (16.0 * rows)
scaler = torch.amp.GradScaler("cpu")
while True:
    optimizer.zero_grad()
    loss = model(data).pow(2).mean()
    if "--scale" in sys.argv:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        optimizer.step()
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_training_on_a_cpu_is_timed_with_its_losses_and_batches(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    base, scaled, larger = (
        shlex.join([sys.executable, str(script), *words])
        for words in (["4"], ["4", "--scale"], ["8"])
    )
    trial = _tried(base, scaled, larger, repeats=1)
    assert trial.given_up == {}
    assert all(run.steps >= 50 and run.clock == "host" for run in trial.runs)
    same, other = trial.estimates()
    assert (same.losses, same.losses_note) == ("agree", "those of the first 5 steps")
    assert same.unit == "step"
    assert (other.losses, other.unit) == ("differ", "sample")
    assert _processes_with(str(tmp_path)) == []
