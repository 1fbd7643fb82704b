"""Run variants of a program in turn, and read the times of their steps; nothing is recorded.

The markers in the program time its steps as they do before a capture begins
(``dlprof_nvtx/baseline_timing.py``), and say when that is done. Then the program is ended: it may
train for days. Its processes are found by a mark in their environment, so none of them is left.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from aggregator.compare.trials import (
    LEAST_RUNS,
    Estimate,
    Loss,
    TrialRun,
    judge_variant,
    looks_of,
    mean_step,
)
from aggregator.errors import UsageError
from aggregator.sources.collector.step_times import Steps, read_steps, times_of
from profiler_cli.capture import processes
from profiler_cli.capture.capture_session import (
    FOLDER_VARIABLE,
    STEPS_VARIABLE,
    WINDOW_VARIABLE,
    file_names,
    make_folder,
)
from profiler_cli.capture.gpu_samples import Nvml, NvmlError
from profiler_cli.capture.running import last_lines
from profiler_cli.options.declared import Options

TRIAL_VARIABLE: Final = "DLPROF_TRIAL"
"""Set in the processes of a trial, to the seconds after which the timing ends."""
LEAST_STEPS: Final = 3
"""Fewer steps are no measurement."""
MOST_REPEATS: Final = 100
MOST_STEPS: Final = 8_000
RETRIES: Final = 1
"""A variant that has been measured before may fail so often until it is given up."""
_SETTING: Final = re.compile(r"[A-Za-z_]\w*=")
_PATH: Final = "PYTHONPATH"
_POLL_S: Final = 0.05
_OTHERS_S: Final = 5.0
"""Ranks that are timed longer than the first one are waited for, for as long as that took and
this."""
_KILL_S: Final = 5.0
_MOST_OUTPUT_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class TrialPlan:
    """What is run."""

    commands: tuple[str, ...]  # The base first. Settings (NAME=VALUE) may precede a program.
    repeats: int = 5  # Most runs of each variant.
    steps: int = 200  # Steps that are timed in a run, after its warm-up.
    run_s: float = 60.0  # Fewer steps are timed after so long. Unit: s.
    limit_s: float = 600.0  # A run that has not been timed by then is ended. Unit: s.
    may_stop_early: bool = True
    seed: int | None = None  # Of the order; None: another one in each trial.


@dataclass
class Trial:
    """The runs of a trial, as far as it has come."""

    plan: TrialPlan
    runs: list[TrialRun] = field(default_factory=list)
    given_up: dict[int, str] = field(default_factory=dict)  # Why, by variant.
    is_interrupted: bool = False
    stopped_early: bool = False

    def estimates(self) -> list[Estimate]:
        """Compare each variant with the base."""
        tries = len(self.plan.commands) - 1
        looks = looks_of(self.plan.repeats) if self.plan.may_stop_early else 1
        return [
            judge_variant(self.runs, variant, looks=looks, tries=tries)
            for variant in range(1, tries + 1)
        ]

    def measured(self, variant: int) -> int:
        """Return how many runs of a variant have been timed."""
        return sum(run.variant == variant and not run.failure for run in self.runs)


def run_trial(
    plan: TrialPlan,
    on_run: Callable[[TrialRun], object] = lambda _: None,
    measure: Callable[[TrialPlan, int, int], TrialRun] | None = None,
) -> Trial:
    """Run the variants, interleaved in random order, until more runs would say little more.

    Args:
        plan: The commands and limits.
        on_run: Called after each run.
        measure: Runs a variant once (plan, variant, number of the run); None: as a process.

    Returns:
        The runs; after Ctrl-C those that had ended.

    Raises:
        UsageError: A command cannot be started, or a limit makes no sense.
    """
    check_plan(plan)
    trial, order = Trial(plan), random.Random(plan.seed)  # noqa: S311 - no secret
    try:
        for number in range(plan.repeats):
            variants = [at for at in range(len(plan.commands)) if at not in trial.given_up]
            order.shuffle(variants)
            if 0 in trial.given_up or variants == [0]:
                break
            for variant in variants:
                run = (measure or run_once)(plan, variant, len(trial.runs))
                trial.runs.append(run)
                _give_up_after(trial, run)
                on_run(run)
            if _is_enough(trial, number + 1):
                trial.stopped_early = number + 1 < plan.repeats
                break
    except KeyboardInterrupt:
        trial.is_interrupted = True
    return trial


def check_plan(plan: TrialPlan) -> None:
    """Refuse what cannot be run.

    Raises:
        UsageError: A command cannot be started, or a number is out of its limits.
    """
    for command in plan.commands:
        processes.check_application(split_command(command)[1])
    limits = (
        ("repeats", plan.repeats, 1, MOST_REPEATS),
        ("steps", plan.steps, LEAST_STEPS, MOST_STEPS),
    )
    for name, value, least, most in limits:
        if not least <= value <= most:
            raise UsageError(f"--{name} must be from {least} to {most}, not {value}.")
    for name, limit_s in (("run-seconds", plan.run_s), ("time-limit", plan.limit_s)):
        if not 0 < limit_s < 1e6:
            raise UsageError(f"--{name} must be a number of seconds above 0, not {limit_s:g}.")


def split_command(command: str) -> tuple[dict[str, str], list[str]]:
    """Split ``NAME=VALUE ... PROGRAM ARGUMENT ...`` into the settings and the program's words.

    Raises:
        UsageError: It names no program.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"The command '{command}' cannot be read: {error}.") from error
    settings: dict[str, str] = {}
    while words and _SETTING.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    if not words:
        raise UsageError(
            f"The command '{command}' names no program.", hint="Example: --try 'python train.py'"
        )
    return settings, words


def with_settings(environment: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the settings of a variant, whose Python path is added to it."""
    found = {**environment, **settings}
    if _PATH in settings and environment.get(_PATH):
        found[_PATH] = f"{environment[_PATH]}{os.pathsep}{settings[_PATH]}"
    return found


def _give_up_after(trial: Trial, run: TrialRun) -> None:
    """Run a variant no more if it fails at first, or again and again."""
    if run.failure:
        failed = sum(other.variant == run.variant and bool(other.failure) for other in trial.runs)
        if not trial.measured(run.variant) or failed > RETRIES:
            trial.given_up[run.variant] = run.failure


def _is_enough(trial: Trial, rounds: int) -> bool:
    plan = trial.plan
    is_look = rounds >= LEAST_RUNS and looks_of(plan.repeats) > 1
    if not plan.may_stop_early or not is_look or 0 in trial.given_up:
        return False
    left = [found for found in trial.estimates() if found.variant not in trial.given_up]
    return all(found.is_narrow for found in left)


# --- one run --------------------------------------------------------------------------------------


def run_once(plan: TrialPlan, variant: int, number: int) -> TrialRun:
    """Run a variant until its steps are timed, and end it.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C; no process of the run is left.
    """
    settings, words = split_command(plan.commands[variant])
    folder = make_folder()
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        # Each write goes to the end, wherever that is: the file is cut while the program runs.
        fcntl.fcntl(output, fcntl.F_SETFL, fcntl.fcntl(output, fcntl.F_GETFL) | os.O_APPEND)
        try:
            ending = _run(plan, words, _environment(plan, settings, folder, number), output, folder)
            steps = read_steps(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        seconds = time.monotonic() - began
        run = _read(steps, variant, number, seconds, ending)
        if ending.failure or run.step_ns is None:
            failure = ending.failure or _without_steps(steps)
            lines = tuple(last_lines(output))
            return TrialRun(variant, number, seconds=seconds, failure=failure, last_lines=lines)
        return run


@dataclass
class _RunEnding:
    failure: str = ""
    sm_clock_mhz: int | None = None


def _environment(
    plan: TrialPlan, settings: dict[str, str], folder: Path, number: int
) -> dict[str, str]:
    environment = with_settings(processes.application_environment(Options()), settings)
    environment.pop(WINDOW_VARIABLE, None)
    environment[processes.CAPTURE_VARIABLE] += f"-{number}"
    return environment | {
        FOLDER_VARIABLE: str(folder),
        STEPS_VARIABLE: str(plan.steps),
        TRIAL_VARIABLE: str(plan.run_s),
    }


def _run(
    plan: TrialPlan,
    words: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes],
    folder: Path,
) -> _RunEnding:
    mark = environment[processes.CAPTURE_VARIABLE]
    with _ended_at_exit(mark):
        try:
            process = subprocess.Popen(
                list(words),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C on the terminal is dlprof's: it ends the run and shows the others.
                process_group=0,
                preexec_fn=processes.end_with_parent,  # noqa: PLW1509 - one system call
            )
        except OSError as error:
            return _RunEnding(f"could not be started: {error.strerror}")
        with process:
            try:
                return _wait(plan, process, output, folder)
            finally:
                _end(process, mark)


def _wait(
    plan: TrialPlan, process: subprocess.Popen[bytes], output: IO[bytes], folder: Path
) -> _RunEnding:
    """Wait until the steps are timed, the program ends, or its time is over."""
    began, done_s = time.monotonic(), 0.0
    while True:
        with suppress(subprocess.TimeoutExpired):
            return _RunEnding(_failure(process.wait(_POLL_S)))
        if os.fstat(output.fileno()).st_size > _MOST_OUTPUT_BYTES:
            output.truncate(0)
        passed_s = time.monotonic() - began
        names = file_names(folder)
        done = {name for name in names if name.startswith("done.")}
        if done:
            done_s = done_s or passed_s
            waits = {name.partition(".")[2] for name in names if name.startswith("loop.")}
            is_late = passed_s > 2 * done_s + _OTHERS_S
            if is_late or waits <= {name.partition(".")[2] for name in done}:
                return _RunEnding(sm_clock_mhz=_clock_mhz())
        elif passed_s > plan.limit_s:
            return _RunEnding(f"was not timed within {plan.limit_s:g} s (--time-limit)")


def _failure(code: int) -> str:
    if code >= 0:
        return f"failed with exit code {code}" if code else ""
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _clock_mhz() -> int | None:
    """Return the clock of the busiest GPU; the program still runs."""
    try:
        library = Nvml()
    except NvmlError:
        return None
    try:
        return library.busiest_clock_mhz()
    finally:
        library.close()


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End all processes of a run: first by a request, then by force.

    Those without the mark, which an ``env -i`` removes, are found as descendants.
    """
    unmarked = processes.descendants(process.pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
        processes.send({*processes.of_capture(mark), *unmarked} - {process.pid}, number)
        deadline = time.monotonic() + _KILL_S
        while time.monotonic() < deadline:
            unmarked = set(filter(_is_running, unmarked))
            # A zombie has no environment; the program's own is reaped here.
            if process.poll() is not None and not unmarked and not processes.of_capture(mark):
                return
            time.sleep(_POLL_S)


def _is_running(pid: int) -> bool:
    """Whether a process runs; a zombie, which its parent may never reap, has no command line."""
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False


@contextmanager
def _ended_at_exit(mark: str) -> Iterator[None]:
    """Leave no process of a run, whatever ended the block: it may have been a signal."""
    try:
        yield
    finally:
        if left := processes.of_capture(mark):
            processes.send(left, signal.SIGKILL)


# --- what the processes wrote ---------------------------------------------------------------------


def _read(steps: Steps, variant: int, number: int, seconds: float, ending: _RunEnding) -> TrialRun:
    """Join what the processes of a run measured: the slowest rank is the pace of the job."""
    timed = _ranks(steps)
    if not timed:
        return TrialRun(variant, number, seconds=seconds)
    means = [(*mean_step(times), clock, len(times)) for _, times, clock in timed]
    step_ns, pauses, clock, count = max(means)
    contents = [content for content, _, _ in timed]
    first = min(contents, key=lambda content: str(content.get("rank") or "0").zfill(9))
    return TrialRun(
        variant=variant,
        number=number,
        step_ns=step_ns,
        steps=count,
        pauses=pauses,
        clock=clock,
        ranks=len(timed),
        losses=_losses(first),
        samples=_sum(contents, "samples"),
        tokens=_sum(contents, "tokens"),
        sm_clock_mhz=ending.sm_clock_mhz,
        seconds=seconds,
    )


def _ranks(steps: Steps) -> list[tuple[dict[str, Any], list[int], str]]:
    """The processes of the loop with their steps: one for each rank, else the one timed longest."""
    found: dict[str, tuple[dict[str, Any], list[int], str]] = {}
    for content in steps:
        gpu, host = (times_of(content, "bare", name) for name in ("gpu_ns", "host_ns"))
        times, clock = (gpu, "gpu") if gpu else (host, "host")
        rank = str(content.get("rank") or "")
        known = found.get(rank)
        if len(times) >= LEAST_STEPS and (known is None or sum(times) > sum(known[1])):
            found[rank] = content, times, clock
    return list(found.values())


def _without_steps(steps: Steps) -> str:
    if not steps:
        return "has no steps that are known: no process of it used PyTorch and ended as usual"
    most = max(len(times_of(content, "bare", "host_ns")) for content in steps)
    if most:
        return f"ended after {most} steps of its loop, which are too few"
    return "has no steps that are known: no optimizer and no model of PyTorch was called again"


def _losses(content: Mapping[str, Any]) -> tuple[Loss, ...]:
    values = content.get("losses")
    known = values[:100] if isinstance(values, list) else []
    return tuple(
        float(value) if isinstance(value, int | float) else str(value) if value else None
        for value in known
    )


def _sum(contents: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [content.get(name) for content in contents]
    numbers = [float(value) for value in values if isinstance(value, int | float) and value > 0]
    return sum(numbers) if len(numbers) == len(values) else None
