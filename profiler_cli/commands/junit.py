"""A comparison as JUnit XML, which CI systems show as tests: the step and each class."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from fractions import Fraction

from aggregator.compare.result import Comparison, Verdict
from aggregator.compare.text import MEAN_STEP

# Characters that XML 1.0 cannot hold, not even escaped.
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(comparison: Comparison, max_slowdown: Fraction) -> str:
    """Return the step fails if it is slower by more than ``max_slowdown`` of the base.

    What cannot be said is a skipped test. The classes are listed for information.
    """
    base = comparison.base.step_ns
    is_slower = comparison.judgement.verdict is Verdict.SLOWER
    is_failure = is_slower and comparison.difference_ns > max_slowdown * base
    is_unknown = comparison.judgement.verdict is Verdict.CANNOT_TELL
    classes = [change for change in comparison.classes if change.base_ns or change.new_ns]
    suite = ET.Element(
        "testsuite",
        name="dlprof compare",
        tests=str(1 + len(classes)),
        failures=str(int(is_failure)),
        errors="0",
        skipped=str(int(is_unknown)),
    )
    headline = _xml_text(str(comparison.headline))
    step = _case(suite, "step", comparison.new.step_ns)
    if is_failure:
        ET.SubElement(step, "failure", type="regression", message=headline)
    elif is_unknown:
        ET.SubElement(step, "skipped", message=headline)
    else:
        ET.SubElement(step, "system-out").text = headline
    for change in classes:
        times = f"{_ms(change.base_ns)} -> {_ms(change.new_ns)} ms of the {MEAN_STEP}"
        ET.SubElement(_case(suite, change.name, change.new_ns), "system-out").text = times
    ET.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suite, encoding="unicode")}\n'


def _case(suite: ET.Element, name: str, time_ns: Fraction) -> ET.Element:
    seconds = f"{float(time_ns) / 1e9:.9f}"
    return ET.SubElement(suite, "testcase", classname="dlprof", name=name, time=seconds)


def _ms(time_ns: Fraction) -> str:
    return f"{float(time_ns) / 1e6:.3f}"


def _xml_text(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
