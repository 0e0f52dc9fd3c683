"""An independent Python re-statement of the policies, and worlds to try both on.

Written from the tables of the predicates and the contracts, not from the Rego, so that a mistake in one of them shows.
"""
