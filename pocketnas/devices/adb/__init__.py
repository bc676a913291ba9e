"""Phones and Android emulators over ADB: reaching them, and timing models on them."""
