"""Invariant models as scikit-learn estimators."""
