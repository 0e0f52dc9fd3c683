# METADATA
# title: Which facts are there
# description: |
#   A fact is missing when nothing stands under its path, unless the ledger's schema lets a part of the path be absent
#   and what it would stand in was observed: that is a known absence. A fact is stale when its path equals or lies
#   below a stale path; a stale path that ends in "?" makes only absences stale.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate.facts

# METADATA
# title: Why a fact is not to be had ("missing" or "stale"); undefined when it is known
cause(declared, path) := "stale" if {
	_stale(path)
} else := "missing" if {
	not _present(path)
	not _known_absence(declared, path)
} else := "stale" if {
	not _present(path)
	_absence_stale(path)
}

# METADATA
# title: Whether what would hold the last key was observed, does not hold it, and none of that is stale
known_absent(path) if {
	is_object(_at(array.slice(path, 0, count(path) - 1)))
	not _present(path)
	not _stale(path)
	not _absence_stale(path)
}

_stale(path) if {
	some stale in input.stale
	is_array(stale)
	array.slice(path, 0, count(stale)) == stale
}

_present(path) if _at(path) != _nothing

_at(path) := object.get(input.ledger, path, _nothing) if is_object(input.ledger)

# Not an object, so that it is never taken for a record; not JSON, so that no ledger can hold it.
_nothing := {"nothing here"}

_known_absence(declared, path) if {
	some optional in declared.optional
	count(optional) <= count(path)
	every index, key in optional { _key_fits(key, path[index]) }
	is_object(_at(array.slice(path, 0, count(optional) - 1)))
	_at(array.slice(path, 0, count(optional))) in {_nothing, null}
}

_key_fits("*", _)

_key_fits(key, key)

_absence_stale(path) if {
	some stale in input.stale
	is_array(stale)
	last := count(stale) - 1
	stale[last] == "?"
	count(path) > last
	array.slice(path, 0, last) == array.slice(stale, 0, last)
}
