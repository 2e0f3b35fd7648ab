"""From the definitions of results to their schemas, Python types and tables."""
