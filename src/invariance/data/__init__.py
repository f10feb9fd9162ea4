"""Benchmarks: one file per data set; the folder is the registry."""

from invariance.core.catalogue import Catalogue
from invariance.data.base import DataSet

DATA: Catalogue[DataSet] = Catalogue("data set", __name__, DataSet)
