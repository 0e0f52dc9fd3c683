"""Parsers for the tools of the shipped domains that answer in prose, one module per domain.

They turn a text into a JSON value or refuse it. Which tool uses which parser, and what becomes of the value, stands in
the domain's tools.json; the types of the facts stand in its ledger schema.
"""
