"""Dockerfile, .dockerignore and compose file, read as the programs that use them would."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
COMPOSE = REPOSITORY / "docker-compose.yml"
TOKEN = "a-secret-of-tests"
PASSWORD = "a-password-of-tests"


@dataclass
class Stage:
    """One ``FROM`` of the Dockerfile."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all_of(self, word: str) -> list[str]:
        """What follows each instruction of a kind."""
        return [rest for kind, rest in self.steps if kind == word]

    def words_of(self, word: str) -> list[str]:
        """The last instruction of a kind, whose words are JSON."""
        found: list[str] = json.loads(self.all_of(word)[-1])
        return found

    def environment(self) -> dict[str, str]:
        """What ENV sets."""
        return dict(pair.split("=", 1) for line in self.all_of("ENV") for pair in shlex.split(line))

    def health_command(self) -> list[str]:
        """The words of HEALTHCHECK."""
        (line,) = self.all_of("HEALTHCHECK")
        found: list[str] = json.loads(line.partition(" CMD ")[2])
        return found


def read_dockerfile(path: Path = REPOSITORY / "Dockerfile") -> list[Stage]:
    """Its stages, in their order."""
    text = re.sub(r"\\\n", " ", path.read_text())
    stages: list[Stage] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base, name))
        else:
            stages[-1].steps.append((word, rest.strip()))
    return stages


def in_context(name: str, path: Path = REPOSITORY / ".dockerignore") -> bool:
    """Whether a file of the repository is sent to the builder: the last rule that fits decides."""
    parts = name.split("/")
    heads = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    is_in = True
    for rule in path.read_text().splitlines():
        pattern = rule.strip()
        if not pattern or pattern.startswith("#"):
            continue
        plain = pattern.removeprefix("!").strip("/")
        if any(_fits(head, plain) for head in heads):
            is_in = pattern.startswith("!")
    return is_in


def context_files() -> list[str]:
    """What a fresh clone sends to the builder."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    names = filter(None, done.stdout.split("\0"))
    return [name for name in names if in_context(name) and (REPOSITORY / name).is_file()]


def _fits(head: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(head.rsplit("/", 1)[-1], pattern[3:])
    return head.count("/") == pattern.count("/") and fnmatchcase(head, pattern)


def compose_program() -> list[str]:
    """``docker compose`` or ``docker-compose``; neither needs a running engine to check a file."""
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]):
            done = subprocess.run([*words, "version"], capture_output=True, check=False)
            if done.returncode == 0:
                return words
    return []


def resolved_compose(profiles: Path) -> dict[str, Any]:
    """The compose file with its variables filled in: by the program if it is there, else by us."""
    variables = {
        "DLPROF_TOKEN": TOKEN,
        "DLPROF_REDIS_PASSWORD": PASSWORD,
        "DLPROF_PROFILES": str(profiles),
    }
    if program := compose_program():
        done = subprocess.run(
            [*program, "--file", str(COMPOSE), "config"],
            env=variables | {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(profiles)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        text = done.stdout
    else:
        text = re.sub(
            r"\$\{(\w+)(?::[-?][^}]*)?\}", lambda found: variables[found[1]], COMPOSE.read_text()
        )
    found: dict[str, Any] = yaml.safe_load(text)
    return found
