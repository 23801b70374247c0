"""Claude on other clouds: one module per vendor, loaded only if it is chosen."""
