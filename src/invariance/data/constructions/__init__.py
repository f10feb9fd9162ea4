"""How environments are made of samples: colours, shifts, counterfactual pairs, domains."""
