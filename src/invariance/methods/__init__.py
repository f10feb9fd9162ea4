"""Methods: one file each; the folder is the registry."""

from invariance.core.catalogue import Catalogue
from invariance.methods.base import Method

METHODS: Catalogue[Method] = Catalogue("method", __name__, Method, earlier_groups=("invariance.objectives",))
