"""Tables of other people: files read in pieces, columns understood, rows turned into numbers."""
