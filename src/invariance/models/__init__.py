"""Architectures: one file each; the folder is the registry."""

from invariance.core.catalogue import Catalogue
from invariance.models.base import Architecture

MODELS: Catalogue[Architecture] = Catalogue("model", __name__, Architecture)
