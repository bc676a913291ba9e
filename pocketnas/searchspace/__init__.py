"""What can be built: blocks, archs, spaces and networks. Knows no training and no device."""
