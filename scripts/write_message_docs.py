"""Write the tables of warnings, limits and errors, from the code that raises them.

Sentences and hints come from the calls themselves; ``docs/messages.toml`` adds the causes and
remedies that the code does not say. ``--check`` writes nothing and ends with 1 if a page is out of
date.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.errors import DlprofError
from aggregator.profile.limits import FIGURES, LIMITS, OF_WARNING
from scripts.write_cli_docs import as_cells, write_pages

ROOT = Path(__file__).resolve().parent.parent
ADDED = ROOT / "docs/messages.toml"
PACKAGES = ("aggregator", "viewer", "profiler_cli", "dlprof_client")
REGION = re.compile(r"(<!-- (warnings|errors|limits) -->\n).*?(<!-- /\2 -->)", re.DOTALL)
CODE = re.compile(r"[A-Z]+(?:_[A-Z]+)*")
#: Calls that carry a code: of a warning, of an error reply.
WARNS = {"ProfileWarning", "_warn", "_warning", "_warn_of_waits"}
FAILS = {"ViewerError", "error_response", "error_body", "_refused"}


@dataclass
class Message:
    """What the code says of a warning or an error."""

    sentences: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)


class MissingTextError(Exception):
    """A code has no cause or remedy, or a text has no code."""


class Reader(ast.NodeVisitor):
    """Collects the codes of one module, with the templates that are passed along."""

    def __init__(self, constants: Mapping[str, ast.expr], module: ast.Module) -> None:
        self.constants = dict(constants)
        self.warnings: dict[str, Message] = {}
        self.errors: dict[str, Message] = {}
        for statement in module.body:  # Functions may use texts that stand below them.
            if isinstance(statement, ast.AnnAssign):
                self.visit_AnnAssign(statement)
        self.visit(module)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if len(names) == len(values):
                pairs = zip(names, values, strict=True)
                self.constants |= {a.id: b for a, b in pairs if isinstance(a, ast.Name)}
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name) and node.value is not None:
            self.constants[node.target.id] = node.value
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        code = node.args[0] if node.args else ast.Name("code")
        is_passed_on = isinstance(code, ast.Name) and code.id == "code"
        if name == "ProfileWarning" and not is_passed_on and not self._codes(code):
            raise MissingTextError(f"The code of {ast.unparse(node)} is no constant.")
        if name in WARNS:
            self._keep(self.warnings, node.args, node.keywords)
        elif name in FAILS:
            self._keep(self.errors, node.args, node.keywords)
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        """Keep the codes of tables, in which a text follows the code."""
        if len(node.elts) == 3 and self._codes(node.elts[0]) and self._templates(node.elts[1]):
            is_warning = OF_WARNING.keys() & set(self._codes(node.elts[0]))
            found = self.warnings if is_warning else self.errors
            self._keep(found, node.elts[:2], [ast.keyword("hint", node.elts[2])])
        self.generic_visit(node)

    def _keep(
        self, found: dict[str, Message], values: list[ast.expr], keywords: list[ast.keyword]
    ) -> None:
        for code in {code for value in values for code in self._codes(value)}:
            message = found.setdefault(code, Message())
            message.sentences += [text for value in values for text in self._templates(value)]
            hints = [word.value for word in keywords if word.arg == "hint"]
            message.hints += [text for value in hints for text in self._templates(value)]

    def _codes(self, value: ast.expr) -> list[str]:
        if isinstance(value, ast.Name):
            value = self.constants.get(value.id, value)
        text = value.value if isinstance(value, ast.Constant) else None
        return [text] if isinstance(text, str) and CODE.fullmatch(text) else []

    def _templates(self, value: ast.expr) -> list[str]:
        """Return the templates that an expression may be."""
        if isinstance(value, ast.Name) and value.id in self.constants:
            return self._templates(self.constants[value.id])
        if isinstance(value, ast.IfExp):
            return self._templates(value.body) + self._templates(value.orelse)
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "say":
            template = value.args[0]
            return [str(template.value)] if isinstance(template, ast.Constant) else []
        return []


def raised() -> tuple[dict[str, Message], dict[str, Message]]:
    """Return the warnings and the error replies that the code names, with their templates."""
    trees = [
        ast.parse(path.read_text("utf-8"))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    constants = {
        statement.targets[0].id: statement.value
        for tree in trees
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Constant)
    }
    warnings: dict[str, Message] = {}
    errors: dict[str, Message] = {}
    for tree in trees:
        reader = Reader(constants, tree)
        for found, all_found in ((reader.warnings, warnings), (reader.errors, errors)):
            for code, message in found.items():
                whole = all_found.setdefault(code, Message())
                whole.sentences += message.sentences
                whole.hints += message.hints
    return warnings, errors


def error_classes() -> dict[str, type[DlprofError]]:
    """Return the classes of errors by their codes, after loading every module that has one."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if re.search(r'^    code(: str)? = "', path.read_text("utf-8"), re.MULTILINE):
                parts = path.relative_to(ROOT).with_suffix("").parts
                importlib.import_module(".".join(parts))
    found: dict[str, type[DlprofError]] = {}
    waiting = DlprofError.__subclasses__()
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if "code" in vars(kind):
            found[kind.code] = kind
    return found


def shown(templates: list[str]) -> str:
    """Return different templates as one cell; placeholders become an ellipsis."""
    texts = dict.fromkeys(re.sub(r"\{[^{}]*\}", "…", text) for text in templates)
    return " / ".join(text[:1].upper() + text[1:] for text in texts)


def need(value: str, code: str, what: str) -> str:
    if not value:
        raise MissingTextError(f"docs/messages.toml: {code} has no {what}")
    return value


def warning_table(found: Mapping[str, Message], added: Mapping[str, dict[str, str]]) -> str:
    rows = []
    for code, message in sorted(found.items()):
        limit = OF_WARNING.get(code)
        remedy = str(LIMITS[limit].recommendation) + "." if limit else ""
        own = added.get(code, {})
        cause = need(own.get("cause", ""), code, "cause")
        remedy = need(own.get("remedy", remedy), code, "remedy")
        named = f"`{code}`" + (f", `{limit}`" if limit else "")
        rows.append(as_cells(named, shown(message.sentences), cause, remedy))
    head = "| code, limit | what dlprof says | cause | what to do |\n|---|---|---|---|\n"
    return head + "\n".join(rows)


def error_table(found: Mapping[str, Message], added: Mapping[str, dict[str, str]]) -> str:
    classes = error_classes()
    rows = []
    for code in sorted({*classes, *found}):
        message, kind = found.get(code, Message()), classes.get(code)
        own = added.get(code, {})
        means = shown(message.sentences) or own.get("says", "")
        if kind is not None:
            means = (kind.__doc__ or "").splitlines()[0]
        status = "" if kind is None else str(kind.exit_code)
        remedy = need(own.get("remedy", shown(message.hints)), code, "remedy")
        rows.append(as_cells(f"`{code}`", need(means, code, "says"), status, remedy))
    head = "| code | what it means | exit code | what to do |\n|---|---|---|---|\n"
    return head + "\n".join(rows)


def limit_table() -> str:
    rows = []
    for code, limit in LIMITS.items():
        bounds = [
            "; ".join(
                str(figure.title) for figure in FIGURES.values() if code in getattr(figure, kind)
            )
            for kind in ("at_least", "at_most", "unknown")
        ]
        kind = "fault" if limit.is_fault else "property"
        said = (f"{limit.title}. {limit.effect}.", f"{limit.recommendation}.")
        rows.append(as_cells(f"`{code}`", kind, *said, *bounds))
    titles = ("limit", "kind", "what it means", "what to do", "at least", "at most", "unknown")
    head = as_cells(*titles) + "\n" + "|---" * len(titles) + "|\n"
    return head + "\n".join(rows)


def updated_pages() -> Iterator[tuple[Path, str]]:
    """Yield the pages with their tables; each lies between two comments with its name.

    Raises:
        MissingTextError: A text of ``docs/messages.toml`` is missing, or of no use.
    """
    warnings, errors = raised()
    added = tomllib.loads(ADDED.read_text("utf-8"))
    known = {*warnings, *errors, *error_classes()}
    if unused := {*added["warnings"], *added["errors"]} - known:
        raise MissingTextError(f"docs/messages.toml: nothing has the codes {sorted(unused)}")
    tables = {
        "warnings": warning_table(warnings, added["warnings"]),
        "errors": error_table(errors, added["errors"]),
        "limits": limit_table(),
    }
    for page in (ROOT / "docs/troubleshooting.md", ROOT / "docs/numbers.md"):
        yield (
            page,
            REGION.sub(lambda found: f"{found[1]}{tables[found[2]]}\n{found[3]}", page.read_text()),
        )


if __name__ == "__main__":
    sys.exit(write_pages(updated_pages()))
