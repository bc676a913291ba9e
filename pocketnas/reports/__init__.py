"""What people look at: fronts, tables, cards. Reads run folders and imports no torch."""

from pocketnas.reports.summary import Model, RunSummary, pareto_front, read_run

__all__ = ["Model", "RunSummary", "pareto_front", "read_run"]
