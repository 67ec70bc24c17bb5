"""Mounts: the pyfuse3 adapter, the worker a store, the supervisor of a root and the scratch beside the stores."""
