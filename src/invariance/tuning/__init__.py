"""Hyper-parameters found by Optuna: trials are ordinary runs, scored by a rule that says what it has seen."""
