"""The version of fedsim, read by the build and by the manifest of every run."""

__version__ = "0.3.0"
