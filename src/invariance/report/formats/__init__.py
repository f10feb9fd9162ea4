"""What a report can be written as: one file per format; the folder is the registry."""

from invariance.core.catalogue import Catalogue
from invariance.report.formats.base import Format

FORMATS: Catalogue[Format] = Catalogue("format", __name__, Format)
