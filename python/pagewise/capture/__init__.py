"""Captures a program's memory references with QEMU."""
