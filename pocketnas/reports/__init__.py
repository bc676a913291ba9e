"""What people look at: fronts, tables, cards. Reads run folders and imports no torch."""
