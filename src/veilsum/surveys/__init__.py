"""Surveys that guests answer in one visit, with nothing installed."""
