"""Transparent huge pages of this machine: what there is, changed for a while, and tried."""
