"""Methods: one file each; the folder is the registry."""

from invariance.catalogue import Catalogue
from invariance.objectives.base import Objective

METHODS: Catalogue[Objective] = Catalogue("method", __name__, Objective)
