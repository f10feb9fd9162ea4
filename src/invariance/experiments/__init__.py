"""From a spec to a run."""
