"""A stand-in for ``nsys``: answers, writes and ends as the real one does, by copying an export.

Environment: ``FAKE_VERSION`` (2025.3.2), ``FAKE_EXPORT`` (a file to copy; none: no result),
``FAKE_WRITES`` (suffixes, default ``.nsys-rep,.sqlite``), ``FAKE_LOG`` (its words, one per line),
``FAKE_LATER`` (it can begin to collect later), ``FAKE_START_CODE`` (exit code of ``nsys start``),
``FAKE_START_FAILURES`` (so many of them fail first), ``FAKE_AGENT`` (a program that it leaves
running; its process id is written beside the log).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

VALUED = {"-t", "-s", "-o", "-c", "-y", "-d"}


def main() -> int:
    version = os.environ.get("FAKE_VERSION", "2025.3.2")
    words = sys.argv[1:]
    if words == ["--version"]:
        print(f"NVIDIA Nsight Systems version {version}.474-253236389321v0")
        return 0
    if words == ["profile", "--help"]:
        print(
            "\t--cuda-flush-interval=\n\t   Set the interval, in milliseconds" * (version >= "2021")
        )
        if os.environ.get("FAKE_LATER"):
            print("\t--session-new=\n\t-Y, --start-later=")
        return 0
    with Path(os.environ["FAKE_LOG"]).open("a") as log:
        log.write("\n".join([*words, "---", ""]))
    if words[0] == "start":
        count = Path(os.environ["FAKE_LOG"]).read_text().split("\n").count("start")
        if count <= int(os.environ.get("FAKE_START_FAILURES", "0")):
            print("Configuring is not allowed in this state.")
            return 1
        (Path(os.environ["FAKE_LOG"]).parent / "collecting").touch()
        return int(os.environ.get("FAKE_START_CODE", "0"))
    if words[0] == "export":
        return export(words[1:])
    return profile(words[1:])


def export(words: list[str]) -> int:
    target = next(w.partition("=")[2] for w in words if w.startswith("--output="))
    if os.environ.get("FAKE_EXPORT"):
        shutil.copy(os.environ["FAKE_EXPORT"], target)
        return 0
    print("Importer error status: Importation failed.", file=sys.stderr)
    return 1


def leave_agent(program: str) -> None:
    if program:
        agent = subprocess.Popen([program, "600"], start_new_session=True)
        Path(os.environ["FAKE_LOG"]).with_name("agent").write_text(str(agent.pid))


def profile(words: list[str]) -> int:
    base, application, shows = "report1", [], True
    position = 0
    while position < len(words):
        word = words[position]
        if not word.startswith("-"):
            application = words[position:]
            break
        if word == "-o":
            base = words[position + 1]
        if word == "--show-output=false":
            shows = False
        position += 2 if word in VALUED else 1
    out = None if shows else subprocess.DEVNULL
    # As the real one: Ctrl-C is for the application, and the report is made all the same.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = subprocess.Popen(
        application,
        stdout=out,
        stderr=out,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    leave_agent(os.environ.get("FAKE_AGENT", ""))
    duration = next((w.partition("=")[2] for w in words if w.startswith("--duration=")), None)
    try:
        code = child.wait(float(duration) if duration else None)
    except subprocess.TimeoutExpired:
        child.terminate()
        code = child.wait()
    print(f"Generating '/tmp/nsys-report-{os.getpid()}.qdstrm'", flush=True)
    source = os.environ.get("FAKE_EXPORT")
    suffixes = os.environ.get("FAKE_WRITES", ".nsys-rep,.sqlite").split(",")
    if source is None and "FAKE_WRITES" not in os.environ:
        print("Importer error status: An unknown error occurred.", file=sys.stderr)
        suffixes = []
    collecting = Path(os.environ["FAKE_LOG"]).parent / "collecting"
    if "--start-later=true" in words and not collecting.exists():
        suffixes = []
    for suffix in filter(None, suffixes):
        if source is None:
            Path(base + suffix).touch()
        else:
            shutil.copy(source, base + suffix)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())
