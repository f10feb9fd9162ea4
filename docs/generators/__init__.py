"""Pages that come from the code: methods, data sets, recipes, commands, the reference, the audit and a picture."""
