"""A small scenario, which is generated in a moment."""

SMALL = {
    "name": "small",
    "apps": 6,
    "footprint_mib": 8,
    "memory_mib": 24,
    "libraries_mib": 4,
    "services_mib": 4,
}
