"""The composition root: build the program's parts from settings and connect them."""
