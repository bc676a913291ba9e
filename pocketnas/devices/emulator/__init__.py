"""An Arm phone without a phone: models run in QEMU's user mode, and instructions are counted."""
