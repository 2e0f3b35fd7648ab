"""Lazy unmapping beside other allocators, on real programs: `make bench-lazy`."""
