"""How long the HTML report takes to write, how big it is, how soon it shows itself from disk.

    python -m benchmarks.html_report DATABASE [...] [--runs 3]

Writes the report of aggregation 1 of each database, then opens it in headless Chromium without a
network until its dashboard has its figures. Prints medians; exits with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from aggregator.html_report.report import ReportRequest, write_html_report

SIZE_LIMIT_MB = 5.0
#: First useful paint of the dashboard, on a machine of two cores.
PAINT_LIMIT_MS = 1_000.0
CHROMIUM = os.environ.get("DLPROF_CHROMIUM", "/usr/bin/chromium")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("databases", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    is_good = True
    print(f"{'database':40} {'CPU s':>7} {'MB':>6} {'iterations':>11} {'paint ms':>9}")
    with tempfile.TemporaryDirectory(prefix="dlprof-benchmark-") as folder:
        for database in options.databases:
            report = Path(folder) / "report.html"
            cpu_s = statistics.median(_written(database, report) for _ in range(options.runs))
            paint_ms = _paint_ms(report, options.runs)
            size_mb = report.stat().st_size / 1e6
            iterations = report.read_text().count('id="dlprof-iteration-')
            row = f"{database.name:40} {cpu_s:7.2f} {size_mb:6.2f} {iterations:11,} {paint_ms:9.0f}"
            print(row, flush=True)
            is_good &= size_mb <= SIZE_LIMIT_MB and paint_ms <= PAINT_LIMIT_MS
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"Peak memory of the writing process: {peak_mb:.0f} MB")
    return 0 if is_good else 1


def _written(database: Path, report: Path) -> float:
    """CPU time of one report."""
    start = time.process_time()
    with report.open("wb") as stream:
        write_html_report(ReportRequest(database, 1), stream)
    return time.process_time() - start


def _paint_ms(report: Path, runs: int) -> float:
    """From the start of the navigation until the dashboard shows its first figures."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(runs):
            page = browser.new_context(offline=True).new_page()
            page.goto(report.as_uri(), wait_until="commit")
            page.locator(".kpi-value").first.wait_for()
            times.append(float(page.evaluate("performance.now()")))
            page.context.close()
        browser.close()
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
