"""Docstrings as text: what fields mean, and a Sphinx extension that shows formulas in docstrings as mathematics."""

import inspect
import re
from functools import cache
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

from generators.page import tex
from invariance.methods.base import Method

SIGN = re.compile(r"[_^∇‖∘⊗²*]")
"""What tells a formula from a word."""
WORD = re.compile(r"[a-z]{3,}")
NAMES = {"mean", "max", "min", "log", "argmin", "loss"}
"""Words of formulas."""
JOINS = {"=", "−", "+", "·", "≤", "←", "0", "1", *"LRcefrswyzβγηθρ"}
"""What may stand between the parts of a formula."""
ROLE = re.compile(r":\w+:`~?\.?([^`]+)`")


@cache
def _comments(module: str) -> dict[tuple[str, str], str]:
    found = ModuleAnalyzer.for_module(module).find_attr_docs()
    return {place: " ".join(lines).strip() for place, lines in found.items()}


def meaning(cls: type, field: str) -> str:
    """What stands below a field in the code of a class or of one it derives from; nothing where nobody wrote it."""
    for owner in cls.__mro__:
        if owner.__module__.startswith("invariance") and field in vars(owner).get("__annotations__", {}):
            found = _comments(owner.__module__).get((owner.__name__, field), "")
            if found:
                return ROLE.sub(r"``\1``", found)
    return ""


def first_line(value: Any) -> str:
    """The first line of a docstring, without Sphinx's roles."""
    return ROLE.sub(r"``\1``", (inspect.getdoc(value) or "").split("\n", 1)[0])


def body(cls: type) -> str:
    """A docstring without its first line and its example, as Markdown."""
    text = (inspect.getdoc(cls) or "").split("\n", 1)
    words = ROLE.sub(r"``\1``", text[1].split("\nExample:")[0]).strip() if len(text) > 1 else ""
    return "\n".join(map(_typeset, words.splitlines()))


def _typeset(line: str) -> str:
    """A line of a docstring in which runs of formula are mathematics."""
    done: list[str] = []
    run: list[str] = []
    for token in [*line.split(" "), ""]:
        bare = token.rstrip(",.;:")
        formula = bool(SIGN.search(bare)) and "`" not in token and set(WORD.findall(bare)) <= NAMES
        if formula or bare in JOINS:
            run.append(token)
        inside = " ".join(run).count("[") > " ".join(run).count("]")
        if run and (token != run[-1] or (bare != token and not inside) or not token):
            done.append(_math(run))
            run = []
        if not (formula or bare in JOINS):
            done.append(token)
    return " ".join(done[:-1])


def _math(run: list[str]) -> str:
    """A run of tokens as mathematics, if there is a formula among them; punctuation stays behind it."""
    text = " ".join(run)
    bare = text.rstrip(",.;:")
    return f"${tex(bare).strip()}${text[len(bare) :]}" if SIGN.search(bare) else text


def example(cls: type) -> str:
    """The example in a docstring, as a block of code; nothing where there is none."""
    _, _, lines = (inspect.getdoc(cls) or "").partition("\nExample:\n")
    return f"```pycon\n{inspect.cleandoc(lines).strip()}\n```" if lines else ""


def _formula_first(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """The formula at the top of a method's docstring as mathematics; elsewhere a bar is a bar."""
    if inspect.isclass(obj) and issubclass(obj, Method) and "formula" in vars(obj):
        lines[:1] = [".. math::", "", f"   {tex(obj.formula)}", ""]
    if "Example:" in lines:  # the one kind of section that docstrings have
        at = lines.index("Example:")
        lines[at:] = ["**Example**", "", *(line.removeprefix("    ") for line in lines[at + 1 :])]
    lines[:] = [line if line.startswith(("   ", ">>>")) else line.replace("|", r"\|") for line in lines]


def _others(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """What torch, scikit-learn and Python define is documented by them."""
    owner = getattr(obj.fget if isinstance(obj, property) else obj, "__module__", None) or ""
    return True if owner.split(".")[0] in ("torch", "sklearn", "builtins", "abc", "collections") else None


def plain_sklearn(gallery_conf: dict[str, Any], fname: str) -> None:
    """What an example changes in scikit-learn's configuration ends with it."""
    import sklearn

    sklearn.set_config(enable_metadata_routing=False)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", _formula_first)
    app.connect("autodoc-skip-member", _others)
    return {"parallel_read_safe": True}
