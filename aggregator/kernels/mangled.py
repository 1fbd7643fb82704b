"""C++ names of the Itanium ABI, written as Nsight Systems writes them.

Its spelling is that of NVIDIA's compiler: ``(int)4`` for ``4``, ``<unnamed>`` for an anonymous
namespace, ``[lambda() (instance 1)]``, and parameters of templates by their number (``T1``). The
demanglers of C++ libraries differ from it and from each other, and know fewer names.

https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_TYPE_NAMES: Final = (
    "v void|w wchar_t|b bool|c char|a signed char|h unsigned char|s short|t unsigned short|i int"
    "|j unsigned int|l long|m unsigned long|x long long|y unsigned long long|n __int128"
    "|o unsigned __int128|f float|d double|e long double|g __float128|z ...|Di char32_t|Ds char16_t"
    "|Du char8_t|Da auto|Dn std::nullptr_t|Dh __fp16|DF16_ _Float16|DF16b __bf16"
)
_TYPES: Final = dict(pair.split(" ", 1) for pair in _TYPE_NAMES.split("|"))
_STANDARD: Final = {
    "St": "std",
    "Sa": "std::allocator",
    "Sb": "std::basic_string",
    "Ss": "std::string",
    "Si": "std::istream",
    "So": "std::ostream",
    "Sd": "std::iostream",
}
_OPERATOR_NAMES: Final = (
    "nwnew nanew[] dldelete dadelete[] co~ nt! ps+ ng- ad& de* pl+ mi- ml* dv/ rm% an& or| eo^ aS="
    " pL+= mI-= mL*= dV/= rM%= aN&= oR|= eO^= ls<< rs>> lS<<= rS>>= eq== ne!= lt< gt> le<= ge>="
    " ss<=> aa&& oo|| pp++ mm-- cm, pm->* pt-> cl() ix[]"
)
_OPERATORS: Final = {pair[:2]: pair[2:] for pair in _OPERATOR_NAMES.split()}
_QUALIFIERS: Final = {"K": "const", "V": "volatile", "r": "restrict"}
_UNARY: Final = frozenset(("ps", "ng", "ad", "de", "co", "nt"))
_MOST_LETTERS: Final = 1 << 22
"""Of all parts of a name: each may repeat those before, and a short name could fill the memory."""


class UnknownMangling(ValueError):
    """A name that is not mangled, or by rules that are not known here."""


def demangle_mangled(name: str) -> str:
    """Write a mangled name as Nsight Systems does.

    Raises:
        UnknownMangling: It is no such name.
    """
    # Lengths in the name count bytes.
    parser = _Parser(name.encode(errors="replace").decode("latin-1"))
    try:
        parser.expect("_Z")
        text = parser.encoding()
    except (IndexError, KeyError, RecursionError, ValueError) as error:
        raise UnknownMangling(name) from error
    if parser.at != len(parser.name):
        raise UnknownMangling(name)
    return text.encode("latin-1").decode(errors="replace")


@dataclass(frozen=True)
class _Type:
    """A type in two parts, between which a declarator stands: ``void (`` and ``)(int)``."""

    left: str
    right: str = ""

    def __str__(self) -> str:
        return self.left + self.right

    def pointer(self, sign: str) -> _Type:
        if self.right:
            return _Type(f"{self.left} ({sign}", f"){self.right}")
        return _Type(f"{self.left}{'' if self.left[-1:] in '*&' else ' '}{sign}")

    def qualified(self, words: str) -> _Type:
        if self.right.startswith("("):  # Of a member function.
            return _Type(self.left, f"{self.right} {words}")
        is_pointer = self.left[-1:] in {"*", "&"}
        return _Type(f"{self.left}{words}" if is_pointer else f"{words} {self.left}", self.right)


@dataclass
class _Name:
    text: str
    has_arguments: bool = False  # Whether template arguments end it.
    has_result: bool = True  # Constructors, destructors and conversions have no type of a result.
    qualifiers: str = ""  # Of a member function.


class _Parser:
    """Reads a name from its begin; each method reads what it is called after."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = 0
        self.left = _MOST_LETTERS
        self.known: list[_Type] = []  # What later parts may refer to.

    def peek(self, text: str) -> bool:
        return self.name.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if not self.peek(text):
            return False
        self.at += len(text)
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise UnknownMangling(self.name)

    def until(self, end: str) -> str:
        stop = self.name.index(end, self.at)
        text = self.name[self.at : stop]
        self.at = stop + len(end)
        return text

    def digits(self) -> str:
        start = self.at
        while self.name[self.at : self.at + 1].isdecimal():
            self.at += 1
        return self.name[start : self.at]

    def ordinal(self) -> int:
        """Number that ends with an underscore; it counts from one, and the first has no digits."""
        text = self.until("_")
        if text and not text.isdecimal():
            raise UnknownMangling(self.name)
        return int(text) + 2 if text else 1

    def remember(self, found: _Type) -> _Type:
        self.spend(found)
        self.known.append(found)
        return found

    def spend(self, found: _Type) -> None:
        self.left -= len(found.left) + len(found.right)
        if self.left < 0:
            raise UnknownMangling(self.name)

    def encoding(self) -> str:
        """Read a function with its parameters, or the name of a variable."""
        name = self.function_name()
        if self.at == len(self.name) or self.peek("E"):
            return name.text
        result = ""
        if name.has_arguments and name.has_result:
            result = f"{self.type()} "
        return f"{result}{name.text}({self.parameters()}){name.qualifiers}"

    def parameters(self) -> str:
        """Read the types of parameters up to the end."""
        found: list[str] = []
        while self.at < len(self.name) and not self.peek("E"):
            found.append(str(self.type()))
        return "" if found == ["void"] else ", ".join(found)

    def function_name(self) -> _Name:
        if self.take("N"):
            return self.nested("")
        if self.take("Z"):
            return self.local()
        is_known = self.peek("S") and not self.peek("St")
        name = self.unscoped()
        if self.peek("I"):
            if not is_known:
                self.remember(_Type(name.text))
            name = _Name(name.text + self.arguments(), has_arguments=True)
        return name

    def unscoped(self) -> _Name:
        """Read a name without a namespace, or in ``std``, or one that was there before."""
        if self.peek("St") or not self.peek("S"):
            prefix = "std::" if self.take("St") else ""
            name = self.unqualified("")
            name.text = prefix + name.text
            return name
        return _Name(str(self.substitution()))

    def local(self) -> _Name:
        """Read the name of an entity inside a function."""
        scope = self.encoding()
        self.expect("E")
        if self.take("s"):
            self.discriminator()
            return _Name(f"{scope}::string literal")
        if self.take("d"):
            self.ordinal()
        if self.take("N"):
            name = self.nested(scope)
        else:
            name = self.unqualified("")
            name.text = f"{scope}::{name.text}"
            if self.peek("I"):
                self.remember(_Type(name.text))
                name = _Name(name.text + self.arguments(), has_arguments=True)
        self.discriminator()
        return name

    def discriminator(self) -> None:
        if self.take("__"):
            self.digits()
            self.expect("_")
        elif self.peek("_"):
            self.at += 2

    def nested(self, scope: str) -> _Name:
        """Read ``a::b<c>::d`` up to its end, after the ``N``."""
        words = self.qualifier_words()
        words += [" &"] if self.take("R") else [" &&"] if self.take("O") else []
        name, is_known = _Name(scope), False
        while not self.take("E"):
            if name.text != scope and not is_known:
                # All but the whole may be referred to later.
                self.remember(_Type(name.text))
            name, is_known = self.component(name, scope)
        name.qualifiers = "".join(word if word[0] == " " else f" {word}" for word in words)
        return name

    def component(self, before: _Name, scope: str) -> tuple[_Name, bool]:
        """Read one more part of a nested name; also whether it was known before."""
        if self.peek("I"):
            text = before.text + self.arguments()
            return _Name(text, has_arguments=True, has_result=before.has_result), False
        if before.text == scope:
            if self.take("St"):
                return _Name("std"), True
            if self.peek("S"):
                return _Name(str(self.substitution())), True
            if self.peek("T"):
                return _Name(str(self.template_parameter())), False
            if self.peek("Dt") or self.peek("DT"):
                return _Name(self.decltype()), False
        name = self.unqualified(before.text)
        if before.text:
            name.text = f"{before.text}::{name.text}"
        return name, False

    def qualifier_words(self) -> list[str]:
        found = []
        while self.name[self.at : self.at + 1] in _QUALIFIERS and self.at < len(self.name):
            found.append(_QUALIFIERS[self.name[self.at]])
            self.at += 1
        return found[::-1]

    def unqualified(self, owner: str) -> _Name:
        """Read a plain name, an operator, a lambda, or a constructor of ``owner``."""
        self.take("L")  # Of internal linkage.
        if self.name[self.at].isdecimal():
            name = _Name(self.source_name())
        elif self.take("Ul"):
            parameters = self.parameters()
            self.expect("E")
            name = _Name(f"[lambda({parameters}) (instance {self.ordinal()})]")
        elif self.take("Ut"):
            name = _Name(f"[unnamed type (instance {self.ordinal()})]")
        elif self.name[self.at] in "CD" and self.name[self.at + 1].isdecimal():
            sign = "~" if self.name[self.at] == "D" else ""
            self.at += 2
            last = _without_arguments(owner).rpartition("::")[2]
            name = _Name(sign + last, has_result=False)
        elif self.take("cv"):
            name = _Name(f"operator {self.type()}", has_result=False)
        elif self.take("li"):
            name = _Name(f'operator ""{self.source_name()}')
        else:
            name = _Name(f"operator {_OPERATORS[self.name[self.at : self.at + 2]]}")
            self.at += 2
        while self.take("B"):
            name.text += f"[abi:{self.source_name()}]"
        return name

    def source_name(self) -> str:
        length = int(self.digits() or "0")
        text = self.name[self.at : self.at + length]
        if not length or len(text) < length:
            raise UnknownMangling(self.name)
        self.at += length
        return "<unnamed>" if text.startswith("_GLOBAL__N") else text

    def substitution(self) -> _Type:
        """Read a reference to an earlier part."""
        two = self.name[self.at : self.at + 2]
        if two in _STANDARD:
            self.at += 2
            return _Type(_STANDARD[two])
        self.expect("S")
        text = self.until("_")
        found = self.known[int(text, 36) + 1 if text else 0]
        self.spend(found)
        return found

    def template_parameter(self) -> _Type:
        self.expect("T")
        return self.remember(_Type(f"T{self.ordinal()}"))

    def arguments(self) -> str:
        self.expect("I")
        return f"<{', '.join(self.argument_list())}>"

    def argument_list(self) -> list[str]:
        found = []
        while not self.take("E"):
            if self.take("X"):
                found.append(self.expression())
                self.expect("E")
            elif self.peek("L"):
                found.append(self.literal())
            elif self.take("J"):
                found.append(", ".join(self.argument_list()))
            else:
                found.append(str(self.type()))
        return found

    def literal(self) -> str:
        self.expect("L")
        if self.take("_Z"):
            text = self.encoding()
            self.expect("E")
            return text
        kind = self.type()
        value = self.until("E")
        return f"({kind}){value.replace('n', '-', 1) if value.startswith('n') else value}"

    def type(self) -> _Type:
        """Read a type."""
        for length in (5, 2, 1):
            word = self.name[self.at : self.at + length]
            if word in _TYPES:
                self.at += len(word)
                return _Type(_TYPES[word])
        reader = self._READERS.get(self.name[self.at])
        if reader is not None:
            return reader(self)
        if self.peek("S") and not self.peek("St"):
            found = self.substitution()
            return self.with_arguments(found)
        return self.with_arguments(self.remember(_Type(self.class_name())))

    def class_name(self) -> str:
        if self.take("N"):
            return self.nested("").text
        if self.take("Z"):
            return self.local().text
        return self.unscoped().text

    def with_arguments(self, found: _Type) -> _Type:
        if not self.peek("I"):
            return found
        return self.remember(_Type(str(found) + self.arguments()))

    def qualified_type(self) -> _Type:
        words = self.qualifier_words()
        return self.remember(self.type().qualified(" ".join(words)))

    def pointer_type(self) -> _Type:
        sign = {"P": "*", "R": "&", "O": "&&"}[self.name[self.at]]
        self.at += 1
        return self.remember(self.type().pointer(sign))

    def parameter_type(self) -> _Type:
        return self.with_arguments(self.template_parameter())

    def function_type(self) -> _Type:
        self.expect("F")
        self.take("Y")
        result, parameters = self.type(), self.parameters()
        self.expect("E")
        return self.remember(_Type(str(result), f"({parameters})"))

    def array_type(self) -> _Type:
        self.expect("A")
        size = self.digits() or ("" if self.peek("_") else self.expression())
        self.expect("_")
        inner = self.type()
        return self.remember(_Type(inner.left, f"[{size}]{inner.right}"))

    def member_type(self) -> _Type:
        self.expect("M")
        owner, kind = self.type(), self.type()
        return self.remember(kind.pointer(f"{owner}::*"))

    def vendor_type(self) -> _Type:
        self.expect("u")
        return self.with_arguments(self.remember(_Type(self.source_name())))

    def other_type(self) -> _Type:
        if self.take("Dp"):
            return self.remember(_Type(f"{self.type()}..."))
        if self.take("Dv"):
            size = self.digits()
            self.expect("_")
            return self.remember(_Type(f"__vector({size}) {self.type()}"))
        return self.remember(_Type(self.decltype()))

    def decltype(self) -> str:
        if not self.take("DT"):
            self.expect("Dt")
        text = f"decltype({self.expression()})"
        self.expect("E")
        return text

    _READERS: Final[dict[str, Callable[[_Parser], _Type]]] = {
        **dict.fromkeys("KVr", qualified_type),
        **dict.fromkeys("PRO", pointer_type),
        "T": parameter_type,
        "F": function_type,
        "A": array_type,
        "M": member_type,
        "u": vendor_type,
        "D": other_type,
    }

    def expression(self) -> str:
        """Read an expression of a template argument."""
        if self.peek("L"):
            return self.literal()
        if self.take("T"):
            return f"T{self.ordinal()}"
        if self.take("sr"):
            name = f"{self.type()}::{self.unqualified('').text}"
            return name + (self.arguments() if self.peek("I") else "")
        word = self.name[self.at : self.at + 2]
        self.at += 2
        if word in {"sp", "sZ", "st"}:
            inner = str(self.type()) if word == "st" else self.expression()
            return f"{inner}..." if word == "sp" else f"sizeof{'...' * (word == 'sZ')}({inner})"
        sign, operand = _OPERATORS[word], self.operand()
        return sign + operand if word in _UNARY else f"{operand}{sign}{self.operand()}"

    def operand(self) -> str:
        is_plain = self.peek("T") or self.peek("L")
        text = self.expression()
        return text if is_plain else f"({text})"


def _without_arguments(name: str) -> str:
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {">": 1, "<": -1}.get(name[at], 0)
        if not depth:
            return name[:at] if name[at] == "<" else name
    return name
