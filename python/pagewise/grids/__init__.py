"""Grids of simulations: traces x architectures x options x sizes x devices x seeds, and traces x
eviction policies x options x sizes.

``run.sweep`` runs a grid on all cores (or on a Ray cluster), keeps every finished cell in a journal
beside the output, and writes one Parquet table. After an interruption, the next run continues and
writes the same bytes. docs/sweep.md is the user's guide.
"""
