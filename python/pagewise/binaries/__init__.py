"""Checks whether ELF files and Android packages run with larger pages."""
