"""Settings from files, variables and options: checked, frozen, each with its origin.

The only package that uses tomllib and dotenv. Parsing the command line needs `sources` alone.
"""
