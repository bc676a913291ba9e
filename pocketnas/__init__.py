"""PocketNAS: hardware-aware neural architecture search with the phone in the loop."""

__version__ = "0.1.0"
