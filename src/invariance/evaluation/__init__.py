"""Numbers about a model: scores, tests of homogeneity, diagnostics, the loss around it."""
