"""An independent Python re-statement of the retail policies, and worlds to try both on; every domain's recordings.

Written from the tables of the predicates and the contracts, not from the Rego, so that a mistake in one of them shows.
"""
