"""Capturing a program's memory references: which file QEMU runs, and the run itself."""
