"""Advice: one module per question. An advice has evidence, settings and their undo."""
