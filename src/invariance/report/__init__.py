"""What runs showed, for people: pages, tables and pictures."""
