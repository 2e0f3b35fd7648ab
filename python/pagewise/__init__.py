"""What should give when memory runs short: measured, simulated and advised from recordings."""
