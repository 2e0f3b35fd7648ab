"""Fits and cost models, one per module."""
