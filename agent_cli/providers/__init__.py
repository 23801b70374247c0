"""Model providers: a folder for each API, and beside them the layers that they share."""
