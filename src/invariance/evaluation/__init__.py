"""Numbers about a model: scores, diagnostics, the loss around it."""
