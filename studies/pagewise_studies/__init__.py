"""The papers' experiments, run again: one module per study, with `pagewise study NAME`."""
