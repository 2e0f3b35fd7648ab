"""Transparent huge pages of this machine: read their switches, change them for a trial, measure."""
