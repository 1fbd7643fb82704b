"""Check commit messages: one file of a hook, or all commits since the rules were agreed on.

python3 scripts/check_commits.py [MESSAGE_FILE]
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE = "30b6bbf592f8edb36f458be768ed31d83a7568d7"
"""The last commit that was written without these rules."""
MOST_CHARACTERS = 72
MOST_LINES_WITHOUT_BODY = 200
"""Changed lines. What changes more has a reason that its subject cannot hold."""
NO_VERBS = re.compile(
    r"(?:a|an|the|no|not|it|its|this|that|these|those|there|what|when|where|which|who|some|all"
    r"|both|each|every|one|two|new|now|only|if|after|before|in|on|of|for|with|and|or|so)$",
    re.IGNORECASE,
)
OTHER_FORMS = re.compile(r"(?:\w{2,}ed|\w{3,}ing|\w*[^su\W]s|\w{4,}(?:tion|ment|ness))$")
"""Past, participle, third person and nouns; verbs that look so follow."""
BASE_FORMS = re.compile(
    r"(?:bleed|embed|exceed|feed|need|proceed|seed|shed|shred|speed|succeed|bring|cling|string|spring"
    r"|alias|bias|canvas|implement|document|comment|mention|position|condition|function|segment"
    r"|supplement|augment|experiment|cement|transition|partition|ration|station|caution|question"
    r"|witness|harness)$",
    re.IGNORECASE,
)
FROM_GIT = re.compile(r"(?:Merge|Revert|fixup!|squash!|amend!) ")


def faults(message: str, changed_lines: int) -> list[str]:
    """Return what is wrong with a message, as sentences; none if it may be committed."""
    subject, *rest = message.strip().split("\n") or [""]
    if FROM_GIT.match(subject):
        return []
    words = subject.split()
    first = words[0] if words else ""
    has_body = any(line.strip() for line in rest)
    checks = {
        f"The subject has {len(subject)} characters, more than {MOST_CHARACTERS}.": (
            len(subject) > MOST_CHARACTERS
        ),
        "The subject does not begin with a capital letter.": not first[:1].isupper(),
        f"The subject does not begin with a verb in the imperative: {first!r}.": (
            not _is_imperative(words)
        ),
        "The subject names two topics: they are two commits.": ";" in subject,
        "The subject ends with a period.": subject.endswith("."),
        "The second line is not empty.": bool(rest and rest[0].strip()),
        f"{changed_lines} lines change, and no body gives the reason.": (
            changed_lines > MOST_LINES_WITHOUT_BODY and not has_body
        ),
    }
    return [sentence for sentence, is_wrong in checks.items() if is_wrong]


def _is_imperative(words: list[str]) -> bool:
    """Whether a sentence may begin with a verb as it is commanded: words, not grammar, decide."""
    if not words or not words[0].isalpha() or NO_VERBS.match(words[0]):
        return False
    is_noun = words[1:2] in (["of"], ["is"], ["are"], ["has"], ["have"], ["was"], ["were"])
    return not is_noun and bool(BASE_FORMS.match(words[0]) or not OTHER_FORMS.match(words[0]))


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def _changed_lines(numstat: str) -> int:
    """Return the sum of added and deleted lines; generated and binary files have none."""
    numbers = re.findall(r"^(\d+)\t(\d+)\t", numstat, re.MULTILINE)
    return sum(int(added) + int(deleted) for added, deleted in numbers)


def check_file(path: Path) -> list[str]:
    """Return the faults of the message that git hands to its hook."""
    kept = path.read_text("utf-8").split("# ------------------------ >8 ------------------------")[
        0
    ]
    lines = [line for line in kept.split("\n") if not line.startswith("#")]
    return faults("\n".join(lines), _changed_lines(_git("diff", "--cached", "--numstat", "-M")))


def check_history(base: str = BASE) -> list[str]:
    """Return the faults of all commits after ``base``, none where it is not in the history."""
    if base not in _git("merge-base", base, "HEAD"):
        return []
    found = []
    for commit in _git("rev-list", "--no-merges", f"{base}..HEAD").split():
        message = _git("show", "-s", "--format=%B", commit)
        changed = _changed_lines(_git("show", "--format=", "--numstat", "-M", commit))
        found += [f"{commit[:7]} {sentence}" for sentence in faults(message, changed)]
    return found


def main(arguments: list[str]) -> int:
    """Print the faults, and return 1 if there are any."""
    found = check_file(Path(arguments[0])) if arguments else check_history()
    for sentence in found:
        print(f"commit message: {sentence}", file=sys.stderr)
    if found:
        print("CONTRIBUTING.md, Style, says how a commit is described.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
