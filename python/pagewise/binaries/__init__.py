"""Will it run with larger pages? ELF files and Android packages, one file per kind of container."""
