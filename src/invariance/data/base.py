"""What a data set is."""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from invariance.core import Benchmark
from invariance.data.files import File
from invariance.models.base import Architecture
from invariance.recipes.presets import Preferences
from invariance.values import STRICT, Share

Betas = Annotated[tuple[Share, ...], Field(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class DataSet(ABC):
    """A benchmark that can be loaded; its fields decide its construction."""

    title: ClassVar[str]
    about: ClassVar[str]
    citation: ClassVar[str]
    licence: ClassVar[str]
    files: ClassVar[tuple[File, ...]] = ()
    architecture: ClassVar[Architecture]
    """The model the literature uses on it."""
    preferences: ClassVar[Preferences] = {}
    """What this data set needs changed in a recipe, by the recipe's name; wins over what a method prefers."""

    @abstractmethod
    def load(self, seed: int, *, oracle: bool = False) -> Benchmark:
        """The benchmark of trial ``seed``; an ``oracle`` sees inputs without their spurious part."""
