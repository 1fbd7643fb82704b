"""The registry of answers, and the table of what-ifs: what every client takes from them."""

from __future__ import annotations

import asyncio
import pkgutil
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from aggregator import answers
from aggregator.answers.changes import CHANGES, Takes, make_changes
from aggregator.answers.registry import ANSWERS
from aggregator.answers.trials import RememberedTrial, remember, trials_file
from profiler_cli.assistants.profiles import Profiles
from profiler_cli.assistants.server import make_server
from profiler_cli.commands.whatif import run_whatif
from tests.contract.client import ApiClient, Served
from tests.contract.conftest import serve
from tests.contract.test_errors import assert_error

if TYPE_CHECKING:
    from django.conf import LazySettings

_VALUES = {
    Takes.SWITCH: "1",
    Takes.OP: "1",
    Takes.NAMES: "kernels",
    Takes.FACTORS: "kernels=2x",
    Takes.NUMBER: "50",
}


def test_the_api_lists_every_change_with_its_control(api: ApiClient, ours: Served) -> None:
    rows = api.get(ours.at("what-if/changes/")).json["changes"]
    assert [row["name"] for row in rows] == list(CHANGES)
    for row in rows:
        change = CHANGES[row["name"]]
        assert (row["takes"], row["label"], row["unit"]) == (
            change.takes,
            change.label,
            change.unit,
        )
        assert row["choices"] == []  # The profile has one rank.


def test_labels_of_changes_come_in_the_language_of_the_reader(api: ApiClient, ours: Served) -> None:
    chinese = {"Accept-Language": "zh"}
    rows = api.get(ours.at("what-if/changes/"), chinese).json["changes"]
    words = {row["name"]: row["meaning"] for row in rows}
    assert re.search("[\u4e00-\u9fff]", words["graph_launch"])


@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.make])
def test_a_change_is_a_bound_where_the_table_says_so(
    api: ApiClient, ours: Served, name: str
) -> None:
    change = CHANGES[name]
    reply = api.get(ours.at("what-if/"), **{name: _VALUES[change.takes]})
    if reply.status == 400:  # This profile has nothing to change.
        assert_error(reply, 400, "USAGE_ERROR")
    else:
        assert reply.json["is_bound"] == change.is_bound
    assert len(make_changes({name: [_VALUES[change.takes]]})) == 1


def test_the_command_has_an_option_for_every_change(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_whatif(["--help"])
    text = capsys.readouterr().out
    assert [name for name in CHANGES if f"--{name.replace('_', '-')}" not in text] == []


def test_a_tool_describes_every_change() -> None:
    tools = asyncio.run(make_server(Profiles({}, "")).list_tools())
    (what_if,) = (tool for tool in tools if tool.name == "what_if")
    text = what_if.input_schema["properties"]["changes"]["description"]
    assert [name for name in CHANGES if f"{name}: " not in text] == []


def test_trials_are_those_beside_the_database(
    api: ApiClient, own_database: Path, tmp_path: Path, settings: LazySettings
) -> None:
    database = tmp_path / own_database.name
    shutil.copyfile(own_database, database)
    served = serve(database, settings)
    nothing = {"count": 0, "unreadable": 0, "trials": []}
    assert api.get(served.at("trials/")).json == nothing
    trial = RememberedTrial(
        at="2026-05-01T10:00:00+00:00",
        database=database.name,
        base="a",
        variant="b",
        prediction=None,
        verdict="cannot tell",
        unit="step",
        base_ns=None,
        new_ns=None,
        change_pct=None,
        interval_pct=None,
        runs=[1, 0],
        noise_pct=None,
        losses="unknown",
        reason="it failed",
    )
    file = trials_file(database)
    remember(file, [trial, msgspec.structs.replace(trial, database="other.sqlite")])
    found = api.get(served.at("trials/")).json
    assert found == {"count": 1, "unreadable": 0, "trials": [msgspec.to_builtins(trial)]}


def test_every_function_of_an_answer_is_declared() -> None:
    declared = {answer.function for answer in ANSWERS.values()}
    for module in pkgutil.iter_modules(answers.__path__):
        for name, found in vars(import_module(f"aggregator.answers.{module.name}")).items():
            if name.startswith("read_") and found.__module__.endswith(f".answers.{module.name}"):
                assert (
                    f"answers.{module.name}.{name}" in declared or name == "read_memory_difference"
                )


@pytest.mark.parametrize("address", ANSWERS)
def test_an_answer_says_what_it_is_and_what_its_parameters_mean(address: str) -> None:
    answer = ANSWERS[address]
    assert answer.meaning.endswith(".")
    assert answer.reply.__doc__
    for parameter in answer.parameters.values():
        assert (parameter.note.description or "").endswith(".")
