"""Writes the flame graph of an import for docs/performance.md; needs py-spy (pip install py-spy).

python scripts/take_flame_graph.py PROFILE docs/img/import-flame.svg
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

LEAST_PERCENT = 0.3
"""Narrower frames cannot be read and are left out."""
_FRAME = re.compile(r"<g><title>[^<]*?([\d.]+)%\)</title>.*?</g>", re.DOTALL)
_TITLE = re.compile(r'(<text id="title"[^>]*>)[^<]*')


def main(profile: str, target: str) -> int:
    """Record one import."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = Path(folder) / "flame.svg"
        work = [sys.executable, "-m", "benchmarks", "--child", "import", profile]
        command = ["py-spy", "record", "-F", "-r", "200", "-o", str(recorded), "--", *work]
        subprocess.run([*command, str(Path(folder) / "dlprof_dldb.sqlite")], check=True)
        svg = recorded.read_text(encoding="utf-8")
    svg = shortened(svg, f"Import of {Path(profile).name}")
    Path(target).write_text(svg, encoding="utf-8")
    return 0


def shortened(svg: str, title: str) -> str:
    """The graph without its narrowest frames, and without the command that made it."""
    svg = _FRAME.sub(lambda m: m[0] if float(m[1]) >= LEAST_PERCENT else "", svg)
    return _TITLE.sub(lambda m: m[1] + title, svg)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:3]))
