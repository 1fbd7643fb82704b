"""Command lines are stored and shown: values in them that look secret are masked."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

MASK = "****"
_LONGEST_WORD, _LONGEST_TEXT = 8_192, 65_536
"""Characters that are kept: one argument may have 128 kB, and a file any number."""
_SECRET_WORDS = frozenset(
    {"token", "secret", "secrets", "password", "passwd", "passphrase", "pwd", "pass", "auth"}
    | {"apikey", "credential", "credentials", "bearer", "authorization", "pat"}
)
_KEY_OWNERS = frozenset(
    {"api", "access", "private", "secret", "ssh", "encryption", "license"}
    | {"hf", "wandb", "openai", "aws", "azure", "gcp", "ngc", "comet", "neptune"}
)
_ASSIGNMENT = re.compile(
    r"^(?P<name>[-+]{0,2}[A-Za-z][\w.-]*)(?P<sign>[=:])(?P<value>.*)$", re.DOTALL
)
_OPTION = re.compile(r"^--?(?P<name>[A-Za-z][\w.-]*)$")
#: Each pattern begins where no longer name or scheme can: else a long word is read once a letter.
_IN_SCRIPT = re.compile(r"(?<![\w.-])(?P<name>[\w.-]+)=(?P<value>'[^']*'|\"[^\"]*\"|\S+)")
_OPTION_IN_SCRIPT = re.compile(
    r"(?:^|\s)--?(?P<name>[A-Za-z][\w.-]*)\s+(?P<value>'[^']*'|\"[^\"]*\"|[^\s-]\S*)"
)
#: ``?access_token=...`` of an address, and ``"token": "..."`` of JSON.
_PARAMETER = re.compile(r"[?&;](?P<name>[\w.-]+)=(?P<value>[^&#;\s'\"]+)")
_JSON = re.compile(r"(?P<name>[\"'][\w.-]+[\"'])\s*:\s*(?P<value>\"[^\"]*\"|'[^']*'|[^\s,}\]]+)")
#: Tokens that are recognized by how they begin, wherever they are.
_KNOWN_TOKENS = re.compile(
    r"\b(?:hf_|sk-|sk_|gh[pousr]_|github_pat_|glpat-|nvapi-|xox[abprs]-|AKIA|AIza|eyJ)[\w./+=-]{8,}"
)
_USER = re.compile(r"(?i)(?<![a-z0-9+.-])([a-z0-9+.-]+://)[^\s/@]+@")
_CUT_USER = re.compile(r"://[^\s/@]*\Z")  # Its end, by which it is found, was cut off.
_SCHEME = re.compile(r"(?i)\b(bearer|basic)\s+\S+")


def masked_command(words: tuple[str, ...]) -> str:
    """Return a command line as text, secret-looking values replaced.

    One word with blanks is taken apart as a shell would. Long words and long command lines are
    cut, and say so.
    """
    if len(words) == 1:
        words = _split(_cut(words[0], _LONGEST_TEXT))
    words = tuple(_cut(word, _LONGEST_WORD) for word in words)
    masked: list[str] = []
    hide_next = False
    for word in words:
        option = _OPTION.match(word)
        if hide_next and option is None:
            masked.append(MASK)
            hide_next = False
            continue
        in_script = masked[-1:] == ["-c"]
        masked.append(_masked_script(word) if in_script else _masked_word(word))
        hide_next = option is not None and is_secret_name(option["name"])
    return _cut(" ".join(masked), _LONGEST_TEXT)


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    kept = _CUT_USER.sub(f"://{MASK}", text[:longest])
    return f"{kept}... ({len(text) - longest} more characters)"


def is_secret_name(name: str) -> bool:
    """Return whether a name says that its value is secret: ``api-key``, but not ``max-tokens``."""
    parts = [part for part in re.split(r"[-_.]+", name.lower()) if part]
    if _SECRET_WORDS & set(parts):
        return True
    return any(key in ("key", "keys") and owner in _KEY_OWNERS for owner, key in pairwise(parts))


def _masked_script(text: str) -> str:
    """Return a shell's script: assignments and options in it are masked one by one."""
    return _masked_text(_hidden(_OPTION_IN_SCRIPT, _hidden(_IN_SCRIPT, text)))


def _masked_word(word: str) -> str:
    assignment = _ASSIGNMENT.match(word)
    if assignment and is_secret_name(assignment["name"]) and "://" not in word:
        return f"{assignment['name']}{assignment['sign']}{MASK}"
    return _masked_text(word)


def _masked_text(text: str) -> str:
    text = _hidden(_PARAMETER, _USER.sub(rf"\1{MASK}@", text))
    text = _hidden(_JSON, text, f'"{MASK}"')
    return _KNOWN_TOKENS.sub(MASK, _SCHEME.sub(rf"\1 {MASK}", text))


def _hidden(pattern: re.Pattern[str], text: str, mask: str = MASK) -> str:
    """Replace the ``value``, with which each match ends, where its ``name`` is secret."""

    def hide(found: re.Match[str]) -> str:
        if not is_secret_name(found["name"].strip("\"'")):
            return found[0]
        return text[found.start() : found.start("value")] + mask

    return pattern.sub(hide, text)


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())
