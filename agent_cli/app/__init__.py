"""Wire the program: settings in, an agent with its parts out."""
