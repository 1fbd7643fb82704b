"""Imported by Python at its start: enables the markers when the program imports torch.

It also provides ``nvtx.plugins.tf`` for scripts written for nvtx-plugins, unless that is installed.
The program is not affected otherwise: the next ``sitecustomize`` on the path is run too, and errors
are ignored.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
OWN_NAME = "dlprof_nvtx.inject.sitecustomize"
MARKS_TORCH = os.environ.get("DLPROF_NVTX") == "1"


class _Markers(importlib.abc.MetaPathFinder):
    """Finds ``dlprof_nvtx`` in the folder of this file, and wraps the loader of torch."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name == "dlprof_nvtx":
            origin = os.path.join(PACKAGE, "__init__.py")
            return importlib.util.spec_from_file_location(
                name, origin, submodule_search_locations=[PACKAGE]
            )
        if name == "nvtx.plugins":
            return _plugins(path)
        if name != "torch" or not MARKS_TORCH:
            return None
        # This finder stays in its place: another thread may be importing something.
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


def _plugins(path):  # type: ignore[no-untyped-def]
    """Return the bundled plugins, unless the installed package ``nvtx`` has plugins."""
    if importlib.machinery.PathFinder.find_spec("nvtx.plugins", path) is not None:
        return None
    folder = os.path.join(HERE, "nvtx_plugins")
    return importlib.util.spec_from_file_location(
        "nvtx.plugins", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )


class _Loader(importlib.abc.Loader):
    """Loads torch with its own loader, then enables the markers."""

    def __init__(self, loader):  # type: ignore[no-untyped-def]
        self._loader = loader

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        return getattr(self._loader, name)

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        return self._loader.create_module(spec)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        module.__spec__.loader = module.__loader__ = self._loader
        hold = _send("hold")
        try:
            self._loader.exec_module(module)
        except BaseException:
            _remove(hold)
            raise
        _enable()


def _send(name: str) -> str:
    """Write an empty file for dlprof; returns its path. See ``dlprof_nvtx/baseline_timing.py``.

    Importing torch loads CUDA, which begins the collection unless it is held by then.
    """
    folder = os.environ.get("DLPROF_REFERENCE")
    if not folder:
        return ""
    path = os.path.join(folder, f"{name}.{os.getpid()}")
    try:
        with open(path, "w"):
            return path
    except OSError:
        return ""


def _remove(path: str) -> None:
    try:  # noqa: SIM105 - an import of contextlib would take time in every Python
        os.unlink(path)
    except OSError:
        pass


def _enable() -> None:
    try:
        import dlprof_nvtx

        dlprof_nvtx.init()
    except Exception as error:  # noqa: BLE001 - markers must never stop a training
        try:  # As in ``dlprof_nvtx/guard.py``, which may be what cannot be imported.
            text = f"dlprof_nvtx: no markers are written: {error}\n"
            if sys.__stderr__ is not None:
                sys.__stderr__.flush()
                os.write(sys.__stderr__.fileno(), text.encode(errors="backslashreplace"))
        except Exception:  # noqa: BLE001, S110 - there is no other place to report this
            pass
        folder = os.environ.get("DLPROF_REFERENCE") or os.devnull
        if not os.path.exists(os.path.join(folder, f"hold.{os.getppid()}")):
            _send("start")  # No process that started this one decides when to begin.


def _run_next() -> bool:
    """Run the ``sitecustomize`` that this one hides; returns whether there is one."""
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return False
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop("sitecustomize", None)
        raise
    return True


if OWN_NAME in sys.modules:
    # The program imports this name, and finds what it would find without dlprof.
    if not _run_next():
        raise ModuleNotFoundError("No module named 'sitecustomize'", name=__name__)
else:
    if os.environ.get("DLPROF_NVTX") in {"1", "plugins"}:
        sys.meta_path.insert(0, _Markers())
    own = sys.modules.pop(__name__)
    own.__spec__.name = own.__name__ = OWN_NAME
    sys.modules[OWN_NAME] = own
    _run_next()
