"""The folder is the registry: a method, data set, model, study or report format is one file, named by its file name.

Other packages add theirs through an entry point of the group named like the folder, e.g.

    [project.entry-points."invariance.methods"]
    my-method = "my_package.my_method:MyMethod"

A catalogue may know a group by an earlier name too, so that packages written for it keep working. Folders inside the
folder hold what its files are built of and are not looked into.
"""

import dataclasses
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

from pydantic import ValidationError

from invariance.core.errors import BadValue, InvarianceError, UnknownName
from invariance.core.fields import adapter, dumped

T = TypeVar("T")


class Catalogue(Generic[T]):
    """Names of the concrete subclasses of ``base`` in ``package``, and values made from names and fields."""

    def __init__(self, kind: str, package: str, base: type[T], *, earlier_groups: tuple[str, ...] = ()) -> None:
        self.kind, self.package, self.base = kind, package, base
        self.groups = (package, *earlier_groups)

    @cached_property
    def classes(self) -> dict[str, type[T]]:
        """Every class by its name, sorted."""
        found = {_key(module): cls for module, cls in self._own()}
        for entry in (entry for group in self.groups for entry in entry_points(group=group)):
            if _key(entry.name) in found:
                raise InvarianceError(
                    f"entry point {entry.name!r} of {entry.group}: there is a {self.kind} of that name"
                )
            found[_key(entry.name)] = self._loaded(entry)
        return dict(sorted(found.items()))

    def _own(self) -> Iterator[tuple[str, type[T]]]:
        """The files of the folder, by their names, each with its class; a file without any is passed over."""
        for file in pkgutil.iter_modules(import_module(self.package).__path__):
            if file.ispkg:
                continue
            module = import_module(f"{self.package}.{file.name}")
            classes = [cls for cls in vars(module).values() if inspect.isclass(cls) and self._concrete(cls)]
            own = list(dict.fromkeys(cls for cls in classes if cls.__module__ == module.__name__))
            if len(own) > 1:
                names = " and ".join(cls.__name__ for cls in own)
                raise InvarianceError(f"{module.__file__} holds {names}; a {self.kind} is a file of its own")
            if own:
                yield file.name, cast("type[T]", own[0])

    def _loaded(self, entry: EntryPoint) -> type[T]:
        try:
            cls = entry.load()
        except (ImportError, AttributeError) as error:
            raise InvarianceError(f"entry point {entry.name!r} of {entry.group}: {error}") from None
        if not (inspect.isclass(cls) and self._concrete(cls)):
            raise InvarianceError(f"entry point {entry.name!r} of {entry.group} is no {self.base.__name__} class")
        return cast("type[T]", cls)

    def _concrete(self, cls: type) -> bool:
        return issubclass(cls, self.base) and not inspect.isabstract(cls)

    def __getitem__(self, name: str) -> type[T]:
        key = _key(name)
        if key not in self.classes:
            raise UnknownName.of(self.kind, name, self.classes)
        return self.classes[key]

    def create(self, name: str, fields: Mapping[str, Any] | None = None) -> T:
        """The named class with these fields, checked."""
        cls = self[name]
        fields = fields or {}
        known = [field.name for field in dataclasses.fields(cast("Any", cls))]
        if unknown := fields.keys() - set(known):
            raise UnknownName.of(f"field of {self.kind} {name!r}", min(unknown), known)
        try:
            return adapter(cls).validate_python(fields)
        except ValidationError as error:
            raise BadValue.of(error, f"{self.kind} {name!r}") from None

    def name(self, value: T) -> str:
        """The name of a value's class."""
        for name, cls in self.classes.items():
            if cls is type(value):
                return name
        raise UnknownName.of(self.kind, type(value).__name__, self.classes)

    def dump(self, value: T) -> dict[str, Any]:
        """A value as plain data: its name and its fields."""
        return {"name": self.name(value), **dumped(value)}

    def load(self, data: Mapping[str, Any]) -> T:
        """The value that :meth:`dump` made this of."""
        if not isinstance(data.get("name"), str):
            raise BadValue(f"a {self.kind} needs a name; got {str(data.get('name'))[:40]!r}")
        return self.create(data["name"], {k: v for k, v in data.items() if k != "name"})


def _key(name: str) -> str:
    return str(name).lower().replace("_", "-")


def defaults(cls: type) -> dict[str, Any]:
    """Fields of a class and their default values, for listings."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {f.name: f.default for f in dataclasses.fields(cls) if f.default is not dataclasses.MISSING}
