"""The virtual machines of one host: which page size each guest should have, and its start files."""
