"""Compares lazy unmapping with other allocators on real programs: `make bench-lazy`."""
