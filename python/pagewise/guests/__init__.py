"""The virtual machines of one host: the page size for each guest, and the files to start it."""
