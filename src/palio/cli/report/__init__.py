"""What came of a run as a page for people: one file of HTML with its plots in it, nothing fetched from anywhere."""

from palio.cli.report.page import Page, report_option, write_page
from palio.cli.report.plots import Point, bars, columns, line, plain

__all__ = ["Page", "Point", "bars", "columns", "line", "plain", "report_option", "write_page"]
