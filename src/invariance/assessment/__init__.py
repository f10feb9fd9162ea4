"""How good a model is where it was not trained, and what it leans on: numbers a practitioner can act on."""
