"""Claude on other people's clouds: one module a vendor, loaded only where it is chosen."""
