"""From findings to knobs: one module per question, each with its evidence and an undo."""
