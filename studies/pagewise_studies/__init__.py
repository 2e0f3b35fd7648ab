"""The experiments of the papers, run again by `pagewise study NAME`; each study has a module."""
