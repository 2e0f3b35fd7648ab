"""The documentation as a site: pages, reference, pictures, and the settings of Sphinx."""
