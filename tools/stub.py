"""Write ``invariance/__init__.pyi``, the public names, with every method, data set and model that is in its folder.

Other names stand in the stub itself: a function becomes public by a line there.
"""

import re
from importlib.util import find_spec
from pathlib import Path

import invariance
from invariance.data import DATA
from invariance.methods import METHODS
from invariance.models import MODELS

STUB = Path(invariance.__file__).with_suffix(".pyi")
LINE = re.compile(r"^from (\.\S+) import (\w+) as \2$", re.MULTILINE)


def generated(stub: str) -> str:
    """The stub as it should be, made of the one there is."""
    classes = [cls for catalogue in (METHODS, DATA, MODELS) for cls in catalogue.classes.values()]
    found = {(cls.__module__.removeprefix("invariance"), cls.__name__) for cls in classes}
    own = {(module, name) for module, name in found if module.startswith(".")}  # not those of other packages
    files = {module for module, _ in own}
    others = {
        (module, name) for module, name in LINE.findall(stub) if module not in files and find_spec(module, "invariance")
    }
    lines = [f"from {module} import {name} as {name}\n" for module, name in sorted(own | others, key=_order)]
    return "__version__: str\n\n" + "".join(lines)


def _order(line: tuple[str, str]) -> tuple[str, int, str]:
    """Modules by name; in each constants, then classes, then functions, as ruff sorts them."""
    module, name = line
    return module, 0 if name.isupper() else 1 if name[0].isupper() else 2, name


if __name__ == "__main__":
    STUB.write_text(generated(STUB.read_text(encoding="utf-8")), encoding="utf-8")
