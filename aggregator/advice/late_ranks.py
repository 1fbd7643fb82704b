"""A rank that enters the collectives late, so that the others wait."""

from __future__ import annotations

import numpy as np

from aggregator.advice import imbalanced_gpus, input_bound
from aggregator.advice.evidence import gap_items, gpu_item
from aggregator.advice.facts import Facts, RankWait
from aggregator.advice.finding import ALL_RANKS, Answer, Finding, Item, Proof
from aggregator.profile.arrays import Bool
from aggregator.texts import Text, say

NAME = "late_ranks"
MIN_SHARE_PCT = 3.0  # A smaller share of the step is not reported.
MAIN_RATIO = 0.6  # Share of all waiting that one rank must cause to be named.
STALL_RATIO = 0.5  # In a stall the rank is late by more than this times the largest delay.
MIN_STALL_NS = 1_000_000
LOADING_RATIO = 0.5  # Share of its lateness in which it waits for a batch: that makes it late.


def advise(facts: Facts) -> Answer:
    """Name the rank for which the others wait; without one, they take turns.

    A rank that has more to compute is found by ``imbalanced_gpus``.
    """
    if waiting_pct(facts) < MIN_SHARE_PCT or isinstance(imbalanced_gpus.advise(facts), Finding):
        return None
    share = facts.share_pct(sum(rank.exposed_ns for rank in facts.rank_waits))
    late = max(facts.rank_waits, key=lambda rank: (rank.kept_waiting_ns, -rank.rank))
    caused = sum(rank.kept_waiting_ns for rank in facts.rank_waits)
    is_named = late.kept_waiting_ns >= MAIN_RATIO * caused
    return Finding(
        advice=NAME,
        gain_pct=facts.share_pct(_gain_ns(facts, late) * len(facts.gpus)) if is_named else share,
        problem=_problem(facts, late, share) if is_named else _in_turns(share),
        recommendation=_recommendation(facts, late) if is_named else _even_work(),
        reasoning=say(
            "For each collective, the time between its start on a rank and its start on the last "
            "rank, while no kernel computes; all of it is saved if the ranks enter it at the same "
            "time"
        ),
        is_guess=not is_named,
        evidence=_evidence(facts, late if is_named else None),
        faster_rank=late.rank if is_named else ALL_RANKS,
        proof=Proof(
            "SELECT coalesce(sum(kept_waiting_ns), 0) AS kept_waiting_ns FROM view_collectives"
            f" WHERE aggr_id = {facts.aggr} AND rank = {late.rank}"
            f" AND iter_value BETWEEN {facts.steps.first} AND {facts.steps.last}",
            "kept_waiting_ns",
            late.kept_waiting_ns,
        ),
    )


def waiting_pct(facts: Facts) -> float:
    """Share of the steps in which ranks wait for each other, hidden by computing or not.

    It is 0 if there are not several. What a rank costs is said by the exposed part and the replay.
    """
    if len(facts.rank_waits) < 2:
        return 0.0
    return facts.share_pct(sum(rank.waiting_ns for rank in facts.rank_waits))


def _stalls(facts: Facts, late: RankWait) -> tuple[list[int], int]:
    """How late the rank was in the steps in which it was very late, and their constant distance.

    The distance is 0 if there are fewer than three such steps, or if it is not constant.
    """
    steps = range(facts.steps.first, facts.steps.last + 1)
    times = np.array([late.late_ns.get(number, 0) for number in steps])
    rows = np.flatnonzero(times > max(STALL_RATIO * int(times.max(initial=0)), MIN_STALL_NS))
    distances = np.diff(rows)
    is_regular = len(distances) >= 2 and int(distances.min()) == int(distances.max()) > 1
    return times[rows].tolist(), int(distances[0]) if is_regular else 0


def _gain_ns(facts: Facts, late: RankWait) -> float:
    """How much shorter all steps together are if the rank is not late.

    The time that the rank itself waits remains: that the ranks differ from step to step.
    """
    stalls, distance = _stalls(facts, late)
    if distance:
        return float(sum(stalls))
    others = len(facts.rank_waits) - 1
    most = max(wait.exposed_ns for wait in facts.rank_waits)  # What computing hides costs nothing.
    return min(max(late.kept_waiting_ns / others - late.waiting_ns, 0.0), most)


def _problem(facts: Facts, late: RankWait, share: float) -> Text:
    stalls, distance = _stalls(facts, late)
    if distance:
        return say(
            "Rank {rank} enters a collective {ms:.0f} ms late in every {distance}th step; the "
            "ranks wait {share:.0f}% of the step for each other",
            rank=late.rank,
            ms=float(np.median(stalls)) / 1e6,
            distance=distance,
            share=share,
        )
    return say(
        "The ranks wait {share:.0f}% of the step for each other in collectives, {kept:.0f}% of "
        "that for rank {rank}",
        share=share,
        kept=100.0 * late.kept_waiting_ns / sum(wait.kept_waiting_ns for wait in facts.rank_waits),
        rank=late.rank,
    )


def _in_turns(share: float) -> Text:
    return say(
        "The ranks wait {share:.0f}% of the step for each other in collectives, and no rank is "
        "always the last",
        share=share,
    )


def _recommendation(facts: Facts, late: RankWait) -> Text:
    """What to look at: its GPU does not compute much longer than the others."""
    loading_ns = int(input_bound.loading_in_gaps(facts)[_late_work(facts, late)].sum())
    if loading_ns >= LOADING_RATIO * late.kept_waiting_ns / (len(facts.rank_waits) - 1):
        return say(
            "Look at the data loader of rank {rank}: its GPU waits {ms:.0f} ms a step for the next "
            "batch. Its samples may be larger, its storage or CPU cores slower, or its workers "
            "fewer than those of the other ranks",
            rank=late.rank,
            ms=loading_ns / facts.steps.count / 1e6,
        )
    pauses = _pauses(facts, late)
    if pauses:
        return say(
            "Look at the Python code of rank {rank} before {op}, where its GPU is idle longest: "
            "input, logging, checkpoints, evaluation, garbage collection. If there is none, at "
            "other programs on its machine and the clocks of its GPU",
            rank=late.rank,
            op=pauses[0].name.partition(" ")[2],
        )
    return say(
        "Look at the Python code of rank {rank} before its collectives: input, logging, "
        "checkpoints, evaluation, garbage collection. If there is none, at other programs on its "
        "machine and the clocks of its GPU",
        rank=late.rank,
    )


def _pauses(facts: Facts, late: RankWait) -> tuple[Item, ...]:
    """The ops before whose work the GPU of a rank was idle for long."""
    return gap_items(facts, _late_work(facts, late) & (facts.gap_ns >= MIN_STALL_NS))


def _late_work(facts: Facts, late: RankWait) -> Bool:
    """Mask of the work that a rank launched, which may share its GPU with another one."""
    here: Bool = facts.launched & (facts.work.device == late.device)
    if sum(wait.device == late.device for wait in facts.rank_waits) > 1:
        mine = f"/rank_{late.rank}/"
        here &= facts.of_ops([name.startswith(mine) for name in facts.ops.names])
    return here


def _even_work() -> Text:
    return say(
        "Make the steps of all ranks equally long: samples of similar size in a batch, no work "
        "that single ranks do in some steps, the same clocks and no other programs on all machines"
    )


def _evidence(facts: Facts, late: RankWait | None) -> tuple[Item, ...]:
    names = {gpu.device: gpu.name for gpu in facts.gpus}
    latest = max(facts.rank_waits, key=lambda rank: rank.kept_waiting_ns)
    gpus = (gpu_item(latest.device, names.get(latest.device, ""), None),)
    ordered = sorted(facts.rank_waits, key=lambda rank: -rank.exposed_ns)
    waits = (Item("rank", f"{wait.rank}", wait.exposed_ns) for wait in ordered[:5])
    return (*waits, *gpus, *(() if late is None else _pauses(facts, late)[:3]))
