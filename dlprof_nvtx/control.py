"""Enable and disable the PyTorch markers."""

from __future__ import annotations

import atexit
import os

from dlprof_nvtx.baseline_timing import REFERENCE, record_event
from dlprof_nvtx.guard import guarded, hide_from_dynamo, say
from dlprof_nvtx.marker_sampling import DETAIL_VARIABLE, LIGHT
from dlprof_nvtx.patches import CALLS, PATCHES
from dlprof_nvtx.standby import STANDBY
from dlprof_nvtx.state import STATE, Backend, forget_in_child
from dlprof_nvtx.trial import TRIAL
from dlprof_nvtx.windows import WINDOWS

SHAPES_VARIABLE = "DLPROF_NVTX_SHAPES"
CALL_SITES_VARIABLE = "DLPROF_NVTX_CALL_SITES"
OPS_VARIABLE = "DLPROF_NVTX_OPS"
_OLDEST_TORCH = (2, 0)


def init(
    *,
    shapes: str | bool | None = None,
    call_sites: bool | None = None,
    ops: bool | None = None,
    backend: Backend | None = None,
    **ignored: object,
) -> bool:
    """Write markers for everything that this process does with PyTorch from now on.

    A second call has no effect. The arguments of ``nvidia_dlprof_pytorch_nvtx.init`` and
    ``pyprof.init`` are accepted.

    Args:
        shapes: When to record the shapes of tensors: ``first`` (the default) for the first calls of
            a model, ``always`` or ``never``.
        call_sites: Record the line that calls each module (default: no; it costs time).
        ops: Let PyTorch write a range for each op and its backward pass, as ``emit_nvtx`` does
            (default: yes). Without it, the work of a module is one op, and its backward pass is
            another one.
        backend: Destination of the ranges; None for NVTX.
        **ignored: Other arguments, such as ``enable_function_stack``, which have no effect.

    Returns:
        Whether markers are written.
    """
    if STATE.on and STATE.pid == os.getpid():
        return True
    try:
        import torch
    except ImportError as error:
        return _unavailable(f"PyTorch cannot be imported ({error})")
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < _OLDEST_TORCH:
        return _unavailable(f"PyTorch {torch.__version__} is older than 2.0")
    if backend is None and not TRIAL.is_active:
        from dlprof_nvtx.backend import NvtxUnavailableError, TorchNvtx

        try:
            backend = TorchNvtx()
        except NvtxUnavailableError as error:
            return _unavailable(str(error))
    STATE.backend = backend
    STATE.shapes = _shapes(shapes)
    STATE.with_shapes = STATE.shapes != "never"
    STATE.call_sites = _option(CALL_SITES_VARIABLE, value=call_sites, default=False)
    STATE.record_ops = _option(OPS_VARIABLE, value=ops, default=True)
    STATE.pid = os.getpid()
    if not STATE.patched:
        _patch()
    STATE.suspended = 0
    PATCHES.put_back()
    CALLS.put_back()
    STATE.is_held = REFERENCE.hold()
    if STANDBY.is_active:
        stand_by()
    elif STATE.is_held:
        from dlprof_nvtx.settings import describe_process

        describe_process()
    elif REFERENCE.is_inside_loop():
        # Most children of a program with a loop never use the GPU: those that compile, a daemon.
        torch.cuda._lazy_call(guarded(_begin))
    else:
        _begin()
    return True


def _begin() -> None:
    from dlprof_nvtx.settings import describe_process

    WINDOWS.begin()
    start()
    describe_process()


def _patch() -> None:
    from dlprof_nvtx import compiled, loaders, memory, modules, phases, profilers, settings

    for module in (modules, profilers, loaders, settings, memory, compiled, phases):
        guarded(module.patch)()
    if TRIAL.is_active:
        guarded(TRIAL.patch)()
    os.register_at_fork(after_in_child=guarded(forget_in_child))
    os.register_at_fork(after_in_child=guarded(REFERENCE.begin_in_child))
    atexit.register(guarded(_at_exit))
    hide_from_dynamo()
    REFERENCE.on_step, REFERENCE.on_resume = LIGHT.step, resume
    WINDOWS.on_attach, WINDOWS.on_detach = guarded(enter_window), guarded(leave_window)
    WINDOWS.on_give_way, WINDOWS.on_window = guarded(close_ranges), guarded(answer)
    WINDOWS.on_settled = guarded(CALLS.take_out)
    WINDOWS.on_timed, WINDOWS.record_event = guarded(watch_for_loops), guarded(record_event)
    STATE.patched = True


def _shapes(value: str | bool | None) -> str:  # noqa: FBT001
    if isinstance(value, bool):
        return "always" if value else "never"
    default = "never" if os.environ.get(DETAIL_VARIABLE) == "low" else "first"
    text = value or os.environ.get(SHAPES_VARIABLE, "") or default
    return text if text in {"always", "never"} else "first"


def _option(variable: str, *, value: bool | None, default: bool) -> bool:
    if value is not None:
        return value
    text = os.environ.get(variable, "")
    return default if not text else text.lower() not in {"0", "false", "no", "off"}


def _unavailable(reason: str) -> bool:
    say(f"dlprof_nvtx: no markers are written: {reason}")
    REFERENCE.give_up("no_markers")
    return False


def start() -> None:
    """Continue to write markers after ``stop``."""
    if STATE.backend is not None and STATE.pid == os.getpid():
        STATE.on = True
        PATCHES.put_back()
        CALLS.put_back()
        LIGHT.begin()
        STATE.enable_ops()


def resume() -> None:
    """Enable the markers after the unprofiled steps, as if the program had just begun."""
    from dlprof_nvtx.settings import note_config, repeat

    STATE.is_held = False
    STATE.steps = 0
    start()
    note_config({"emit_nvtx": bool(STATE.ops_thread)})
    repeat()


def enter_window() -> None:
    """Enable the markers for another window of the collection."""
    from dlprof_nvtx.settings import repeat

    STATE.is_held, STATE.on = False, True
    PATCHES.put_back()
    CALLS.put_back()
    repeat()
    LIGHT.begin_again()
    STATE.enable_ops()


def close_ranges() -> None:
    """Close the ranges of the markers that outlast a step: the collector leaves the process."""
    from dlprof_nvtx.loaders import close_idle
    from dlprof_nvtx.phases import close_phases

    close_idle()
    close_phases()


def leave_window() -> None:
    """Write no markers after a window, and time the steps that follow."""
    close_ranges()
    STATE.disable_ops()
    STATE.on = STATE.is_light = False
    STATE.is_held = True
    PATCHES.take_out()
    loop = WINDOWS.current
    is_training = loop is not None and loop.clock == "optimizer"
    if loop is not None and is_training and (STANDBY.is_active or not loop.has_unprofiled):
        CALLS.take_out()


def stand_by() -> None:
    """Write no markers until a window is asked for; steps are seen where they end."""
    from dlprof_nvtx.settings import describe_process

    STATE.on = STATE.is_light = False
    STATE.is_held = True
    PATCHES.take_out()
    LIGHT.begin()
    describe_process()


def answer() -> None:
    """Write what is known of a window that was asked for, and begin the next one anew."""
    from dlprof_nvtx.modules import NAMES

    REFERENCE.write()
    STANDBY.answer()
    WINDOWS.forget_window()
    LIGHT.seen.clear()
    NAMES.forget_calls()


def watch_for_loops() -> None:
    """See the calls of models: another loop may begin."""
    CALLS.put_back()


def stop() -> None:
    """Write no markers until ``start``; ranges that are open are still closed."""
    STATE.disable_ops()
    CALLS.take_out()
    STATE.on = STATE.is_light = False


def _at_exit() -> None:
    from dlprof_nvtx.settings import note_memory

    if STATE.pid == os.getpid():
        note_memory()
        REFERENCE.write()
    stop()


def is_active() -> bool:
    """Return whether this process writes markers."""
    return STATE.on


start_graph = start
"""Name that ``nvidia_dlprof_pytorch_nvtx`` used."""
stop_graph = stop
"""Name that ``nvidia_dlprof_pytorch_nvtx`` used."""
