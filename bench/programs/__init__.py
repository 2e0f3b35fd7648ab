"""Whole programs with and without the preload library: `make bench-programs`."""
