"""Every table and figure: which runs it needs, and what they show. One file each; the file name is its name."""

from invariance.core.catalogue import Catalogue
from invariance.studies.support.base import Study

STUDIES: Catalogue[Study] = Catalogue("study", "invariance.studies", Study)
