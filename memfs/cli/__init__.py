"""The command line: click commands, one module for each noun. The only layer that prints."""
