"""What limits the speed of a training step, in one sentence.

The verdict is judged from what the steps wait for in their replay or, without one, from the step
breakdown, and from the findings of the advisers and the roofline. It is unknown, with the reason,
unless one cause clearly takes the largest share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from aggregator.advice import (
    exposed_communication,
    host_stalls,
    imbalanced_gpus,
    input_bound,
    late_ranks,
    launch_bound,
    pageable_copies,
    slow_iterations,
    synchronizing_calls,
    unoverlapped_copies,
)
from aggregator.advice.finding import MEDIUM_GAIN_PCT, GainBound
from aggregator.texts import Text, say

MIN_SHARE_PCT = 40.0  # What takes a smaller share of the step does not limit it.
LEAD_PCT = 5.0  # The largest share exceeds the second by at least this much. Unit: points.
MIN_STEPS = 4  # Fewer steps have no typical one.
MAX_SKEW = 1.25
"""A mean step longer than this times the median one contains start-up or stalls."""
EXPLAINED_RATIO = 0.5
"""Advice explains the idle time if it would save at least this share of it."""
MIN_KNOWN_PCT = 50.0  # With costs known for less of the GPU time the roofline says nothing.
MIN_PEAK_PCT = 20.0  # Kernels further below the roofline are limited by neither of its lines.
DOMINANT_RATIO = 0.6  # Share of the ideal time that one line of the roofline bounds.
MIN_GAIN_PCT = 1.0  # Of what saves less no sentence says so.
MIN_SAVED_PCT = 20.0  # What could save a smaller share of the step does not limit it.


class Limit(StrEnum):
    """What limits a step."""

    LAUNCH = "launch"
    HOST = "host"
    LOADER = "loader"
    COMMUNICATION = "communication"
    COPY = "copy"
    COMPUTE = "compute"
    MEMORY = "memory"
    RANKS = "ranks"
    STALLS = "stalls"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class StepShares:
    """Where the time of a mean step goes. They add up to 100. Units: percent of the step."""

    computing: float  # Kernels or graphs run, other than exposed communication.
    communication: float  # Only kernels that move data between GPUs run.
    copies: float  # Only copies and sets run.
    loading: float  # The GPU is idle while input is waited for.
    idle: float  # The GPU is idle for another reason.

    @property
    def busy(self) -> float:
        """The GPU runs anything. Unit: percent of the step."""
        return self.computing + self.communication + self.copies


@dataclass(frozen=True)
class PathShares:
    """Critical path of the replayed steps, by what is on it. Units: percent of the step."""

    host: float  # Work of the CPU and its calls.
    loading: float  # Waiting for the data loader.
    computing: float  # Kernels and graphs, other than communication.
    communication: float  # Kernels that move data between GPUs.
    copies: float  # Copies and sets.


@dataclass(frozen=True)
class Roofline:
    """Ideal time of the ops by what bounds it; None where it is unknown."""

    known_pct: float | None = None  # Share of the GPU time with known costs. Unit: percent.
    peak_pct: float | None = None  # Ideal time over GPU time. Unit: percent.
    compute_ns: int | None = None  # Ideal time that operations bound. Unit: ns.
    memory_ns: int | None = None  # Ideal time that memory bounds. Unit: ns.
    link_ns: int | None = None  # Ideal time that the bus bounds. Unit: ns.


@dataclass(frozen=True)
class FirstFinding:
    """The finding at the head of the list."""

    advice: str  # Its name.
    problem: str  # One sentence.
    gain_ns: int | None  # Time of a step that a fix could save; None: unknown. Unit: ns.
    gain_pct: float | None  # The same as a share of the step. Unit: percent.
    gain_bound: str = GainBound.AT_MOST  # What is known of it, by ``GainBound``.
    most_ns: int | None = None  # What it saves at most, if ``gain_ns`` is the least. Unit: ns.
    most_pct: float | None = None  # The same as a share of the step. Unit: percent.


@dataclass(frozen=True)
class Symptoms:
    """What a verdict is judged from."""

    shares: StepShares | None  # None: the breakdown is unknown.
    mean_ns: float | None  # Mean time of a step; None: unknown. Unit: ns.
    median_ns: int | None  # Median time of a step; None: there are no steps. Unit: ns.
    steps: int  # Number of steps.
    # Share of the step that each finding could save. Unit: percent.
    gains_pct: Mapping[str, float] = field(default_factory=dict)
    roofline: Roofline = field(default_factory=Roofline)
    path: PathShares | None = None  # None: the steps were not replayed.
    # Whether the step without profiling is known: idle time of the GPU may be the profiler's.
    has_unprofiled: bool = True
    first: FirstFinding | None = None  # None: nothing was found.
    step_ns: float | None = None  # The typical step; None: the median one is. Unit: ns.

    @property
    def step_text(self) -> str:
        """The typical step in a readable unit."""
        return duration_text(self.step_ns or self.median_ns or 0)


@dataclass(frozen=True)
class Verdict:
    """What limits the step, or why this is unknown."""

    limit: Limit
    sentence: Text  # The verdict in one sentence; for an unknown one the reason.
    # Share of the step on which it is based; None: unknown. Unit: percent.
    share_pct: float | None = None
    advice: str | None = None  # Name of the advice that explains it; None: there is none.


_OF_THE_HOST = (launch_bound.NAME, host_stalls.NAME, synchronizing_calls.NAME)
_OF_IDLE_TIME = (*_OF_THE_HOST, input_bound.NAME)


_LIMIT_OF = {
    input_bound.NAME: Limit.LOADER,
    launch_bound.NAME: Limit.LAUNCH,
    host_stalls.NAME: Limit.HOST,
    synchronizing_calls.NAME: Limit.HOST,
    exposed_communication.NAME: Limit.COMMUNICATION,
    imbalanced_gpus.NAME: Limit.RANKS,
    late_ranks.NAME: Limit.RANKS,
    slow_iterations.NAME: Limit.STALLS,
    pageable_copies.NAME: Limit.COPY,
    unoverlapped_copies.NAME: Limit.COPY,
}


def limiting_factor(symptoms: Symptoms) -> Verdict:
    """Return the first finding in one sentence, or what takes most of a step without one."""
    found = _limit_of_step(symptoms)
    if found.limit in (Limit.LAUNCH, Limit.HOST) and not symptoms.has_unprofiled:
        found = _of_profiled_step(symptoms)
    first = symptoms.first
    if first is None or symptoms.median_ns is None:
        return found if first is None else _led_by(found, first)
    limit = _LIMIT_OF.get(first.advice, found.limit)
    if first.gain_pct is None:
        if first.advice not in _OF_THE_HOST and found.limit is not Limit.UNKNOWN:
            return _led_by(found, first)
        return _of_profiled_finding(symptoms, first)
    if first.gain_ns is None:
        sentence = say(
            "{problem}; up to {factor:.1f}x throughput",
            problem=first.problem,
            factor=100.0 / max(100.0 - first.gain_pct, 1.0),
        )
        return Verdict(limit, sentence, first.gain_pct, first.advice)
    # What saves little does not explain the step, unless nothing else is known of it.
    if first.gain_pct < (MEDIUM_GAIN_PCT if symptoms.shares is not None else MIN_GAIN_PCT):
        return _led_by(found, first)
    values: dict[str, Any] = {
        "problem": first.problem,
        "saved": duration_text(first.gain_ns),
        "share": first.gain_pct,
    }
    if first.most_ns is not None:
        sentence = say(
            "{problem}; a fix could save {saved} to {most} of a step ({share:.0f} to "
            "{most_share:.0f}%)",
            **values,
            most=duration_text(first.most_ns),
            most_share=first.most_pct or 0.0,
        )
    elif first.gain_bound == GainBound.AT_LEAST:
        sentence = say(
            "{problem}; a fix could save at least {saved} of a step ({share:.0f}%)", **values
        )
    else:
        sentence = say("{problem}; a fix could save {saved} of a step ({share:.0f}%)", **values)
    return Verdict(limit, sentence, first.gain_pct, first.advice)


def _led_by(found: Verdict, first: FirstFinding) -> Verdict:
    sentence = say(
        "{verdict}. First to change: {problem}", verdict=found.sentence, problem=first.problem
    )
    return replace(found, sentence=sentence, advice=first.advice)


def _of_profiled_finding(symptoms: Symptoms, first: FirstFinding) -> Verdict:
    """The first finding where profiling may have made it, and what the GPU does beside it."""
    if symptoms.shares is None:
        sentence = say("{text}", text=first.problem)
        return Verdict(Limit.UNKNOWN, sentence, None, first.advice)
    sentence = say(
        "{problem}. The GPU is busy {busy:.0f}% of a {step} step",
        problem=first.problem,
        busy=symptoms.shares.busy,
        step=symptoms.step_text,
    )
    return Verdict(Limit.UNKNOWN, sentence, symptoms.shares.busy, first.advice)


def _of_profiled_step(symptoms: Symptoms) -> Verdict:
    """Idle time of a step as profiled says little of the step that is not profiled."""
    busy = 0.0 if symptoms.shares is None else symptoms.shares.busy
    return Verdict(
        Limit.UNKNOWN,
        say(
            "The GPU is busy {busy:.0f}% of a {step} step as profiled; how much of the rest is the "
            "profiler's is unknown",
            busy=busy,
            step=symptoms.step_text,
        ),
        busy,
    )


def _limit_of_step(symptoms: Symptoms) -> Verdict:
    """Name what takes most of a step, if that is clear."""
    mean, median = symptoms.mean_ns, symptoms.median_ns
    if median is None or mean is None:
        return _unknown(say("What limits a step is unknown: no loop was found"))
    if symptoms.steps < MIN_STEPS:
        return _of_few_steps(symptoms)
    if symptoms.shares is None or not symptoms.shares.busy:
        return _unknown(
            say("What limits a step is unknown: it has no breakdown of its time")
            if symptoms.shares is None
            else say("What limits a step is unknown: the profile holds no work of a GPU")
        )
    if mean > MAX_SKEW * median:
        return _unknown(
            say(
                "Some steps are much slower: mean {mean}, median {median}",
                mean=duration_text(mean),
                median=duration_text(median),
            )
        )
    if symptoms.path is not None:
        return _of_path(symptoms, symptoms.shares, symptoms.path, symptoms.step_text)
    return _of_shares(symptoms, symptoms.shares, symptoms.step_text)


def _of_few_steps(symptoms: Symptoms) -> Verdict:
    """Few steps have no typical one, but their time has parts."""
    if symptoms.shares is None:
        return _unknown(
            say(
                "What limits a step is unknown: there are fewer than {count} steps", count=MIN_STEPS
            )
        )
    return _unknown(
        say(
            "What limits a step is unknown: there are fewer than {count} steps. The GPU is busy "
            "{busy:.0f}% of them",
            count=MIN_STEPS,
            busy=symptoms.shares.busy,
        )
    )


def _of_path(symptoms: Symptoms, shares: StepShares, path: PathShares, step: str) -> Verdict:
    """Judge what a step would save most by, if it took no time.

    A step saves at most the time that something is on its critical path; and without the time of
    the CPU, at most the time that the GPU is idle.
    """
    savings = {
        "host": min(path.host, shares.idle),
        "loading": path.loading,
        "computing": path.computing,
        "communication": path.communication,
        "copies": path.copies,
    }
    first, second = sorted(savings, key=lambda name: -savings[name])[:2]
    if savings[first] < MIN_SAVED_PCT or savings[first] - savings[second] < LEAD_PCT:
        return _of_several(savings, first, second, shares, step)
    if first == "host":
        return _of_host(symptoms.gains_pct, shares, path, step)
    if first == "loading":
        return _of_loader(shares.loading or path.loading, step)
    if first == "computing":
        return _of_kernels(symptoms.roofline, shares.busy, step)
    return _of_transfers(first, getattr(shares, first), step)


def _of_several(
    savings: Mapping[str, float], first: str, second: str, shares: StepShares, step: str
) -> Verdict:
    if {first, second} == {"host", "computing"}:
        return Verdict(
            Limit.UNKNOWN,
            say(
                "No single limit: GPU busy {busy:.0f}% of a {step} step; the CPU barely keeps "
                "ahead",
                busy=shares.busy,
                step=step,
            ),
            shares.busy,
        )
    return _unknown(
        say(
            "No single limit: a {step} step would save {a:.0f}% without {first} and {b:.0f}% "
            "without {second}",
            step=step,
            first=_SAVED[first],
            a=savings[first],
            second=_SAVED[second],
            b=savings[second],
        )
    )


_SAVED = {
    "host": say("the time of the CPU"),
    "loading": say("waiting for input"),
    "computing": say("the time of the kernels"),
    "communication": say("communication"),
    "copies": say("copies"),
}


def _of_host(
    gains_pct: Mapping[str, float], shares: StepShares, path: PathShares, step: str
) -> Verdict:
    """Launching, or other work of the CPU."""
    known = {name: gains_pct[name] for name in _OF_THE_HOST if name in gains_pct}
    advice = max(known, key=lambda name: known[name]) if known else None
    limit = Limit.LAUNCH if advice == launch_bound.NAME else Limit.HOST
    idle = shares.idle + shares.loading
    if shares.idle >= MIN_SHARE_PCT:
        return Verdict(limit, _IDLING[limit](idle, step), idle, advice)
    return Verdict(limit, _WAITING[limit](shares.busy, step), path.host, advice)


def _launch_bound(idle: float, step: str) -> Text:
    return say("Launch-bound: the GPU idles {share:.0f}% of a {step} step", share=idle, step=step)


def _host_bound(idle: float, step: str) -> Text:
    return say(
        "CPU-bound: the GPU idles {share:.0f}% of a {step} step and waits for the program",
        share=idle,
        step=step,
    )


def _launches_late(busy: float, step: str) -> Text:
    return say(
        "Launch-bound: the CPU sets the pace of a {step} step; the GPU is busy {busy:.0f}% of it",
        step=step,
        busy=busy,
    )


def _works_long(busy: float, step: str) -> Text:
    return say(
        "CPU-bound: the program sets the pace of a {step} step; the GPU is busy {busy:.0f}% of it",
        step=step,
        busy=busy,
    )


_IDLING = {Limit.LAUNCH: _launch_bound, Limit.HOST: _host_bound}
_WAITING = {Limit.LAUNCH: _launches_late, Limit.HOST: _works_long}


def _of_shares(symptoms: Symptoms, shares: StepShares, step: str) -> Verdict:
    parts = {
        "computing": shares.computing,
        "communication": shares.communication,
        "copies": shares.copies,
        "idle": shares.idle + shares.loading,
    }
    first, second = sorted(parts, key=lambda name: -parts[name])[:2]
    if parts[first] < MIN_SHARE_PCT or parts[first] - parts[second] < LEAD_PCT:
        return _unknown(
            say(
                "No single limit: most of a {step} step is {first} ({a:.0f}%) and {second} "
                "({b:.0f}%)",
                step=step,
                first=_NAMES[first],
                a=parts[first],
                second=_NAMES[second],
                b=parts[second],
            )
        )
    if first == "computing":
        return _of_kernels(symptoms.roofline, shares.busy, step)
    if first == "idle":
        return _of_idle_time(symptoms.gains_pct, shares, step)
    return _of_transfers(first, parts[first], step)


_NAMES = {
    "computing": say("computing"),
    "communication": say("communication"),
    "copies": say("copies"),
    "idle": say("idle time of the GPU"),
}


def _of_idle_time(gains_pct: Mapping[str, float], shares: StepShares, step: str) -> Verdict:
    idle = shares.idle + shares.loading
    loading = max(shares.loading, gains_pct.get(input_bound.NAME, 0.0))
    launching = gains_pct.get(launch_bound.NAME, 0.0)
    if loading > launching and loading >= EXPLAINED_RATIO * idle:
        return _of_loader(shares.loading or loading, step)
    if launching >= EXPLAINED_RATIO * idle:
        return Verdict(Limit.LAUNCH, _launch_bound(idle, step), idle, launch_bound.NAME)
    known = {name: gains_pct[name] for name in _OF_IDLE_TIME if name in gains_pct}
    sentence = say(
        "The GPU idles {share:.0f}% of a {step} step, and no single cause explains half of it",
        share=idle,
        step=step,
    )
    advice = max(known, key=lambda name: known[name]) if known else None
    return Verdict(Limit.UNKNOWN, sentence, idle, advice)


def _of_loader(share: float, step: str) -> Verdict:
    sentence = say(
        "Loader-bound: the GPU waits {share:.0f}% of a {step} step for input",
        share=share,
        step=step,
    )
    return Verdict(Limit.LOADER, sentence, share, input_bound.NAME)


def _of_kernels(roofline: Roofline, share: float, step: str) -> Verdict:
    known = roofline.known_pct or 0.0
    if known < MIN_KNOWN_PCT or roofline.peak_pct is None:
        reason = say(
            "The GPU is busy {share:.0f}% of a {step} step; what limits its kernels is unknown: "
            "the costs of {rest:.0f}% of their time are not known",
            share=share,
            step=step,
            rest=100.0 - known,
        )
        return Verdict(Limit.UNKNOWN, reason, share)
    if roofline.peak_pct < MIN_PEAK_PCT:
        reason = say(
            "The GPU is busy {share:.0f}% of a {step} step, but its kernels reach only "
            "{peak:.0f}% of its peaks: neither computing nor memory limits them",
            share=share,
            step=step,
            peak=roofline.peak_pct,
        )
        return Verdict(Limit.UNKNOWN, reason, share)
    computing, memory = roofline.compute_ns or 0, roofline.memory_ns or 0
    total = max(computing + memory + (roofline.link_ns or 0), 1)
    if computing >= DOMINANT_RATIO * total:
        sentence = say(
            "Compute-bound: the GPU is busy {share:.0f}% of a {step} step, and operations limit "
            "most of its kernels",
            share=share,
            step=step,
        )
        return Verdict(Limit.COMPUTE, sentence, share)
    if memory >= DOMINANT_RATIO * total:
        sentence = say(
            "Memory-bound: the GPU is busy {share:.0f}% of a {step} step, and its memory limits "
            "most of its kernels",
            share=share,
            step=step,
        )
        return Verdict(Limit.MEMORY, sentence, share)
    reason = say(
        "The GPU is busy {share:.0f}% of a {step} step; neither computing nor memory limits most "
        "of its kernels",
        share=share,
        step=step,
    )
    return Verdict(Limit.UNKNOWN, reason, share)


def _of_transfers(part: str, share: float, step: str) -> Verdict:
    if part == "copies":
        sentence = say(
            "Copy-bound: for {share:.0f}% of a {step} step only copies run", share=share, step=step
        )
        return Verdict(Limit.COPY, sentence, share)
    sentence = say(
        "Communication-bound: for {share:.0f}% of a {step} step GPUs exchange data or wait for "
        "each other while no kernel computes",
        share=share,
        step=step,
    )
    return Verdict(Limit.COMMUNICATION, sentence, share, exposed_communication.NAME)


def _unknown(reason: Text) -> Verdict:
    return Verdict(Limit.UNKNOWN, reason)


def duration_text(time_ns: float) -> str:
    """A duration in a readable unit, such as ``52.9 ms``."""
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if time_ns >= size:
            value = time_ns / size
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{time_ns / 1e3:.3g} µs"
