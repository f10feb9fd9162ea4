"""Faults, bad input, odd configurations and long loads: what is injected, and what must hold afterwards."""
