# METADATA
# title: Which policies decided
# description: |
#   The digests of the domain's own part and of the shared gate, and the sequence numbers of everything that can be
#   numbered, so that a host can refuse what it has not proved, has not pinned, or has seen a later one of. 0 stands for
#   what is not there or bears no number.
package ledgeragent.gate.policy

import data.ledgeragent.gate.request

# METADATA
# title: The decision's `policy`
# description: |
#   `declared` is the domain's generated data.
shown(domain, declared) := {
	"revision": declared.revision,
	"gate": build.revision,
	"sequence": {
		"domain": _number(object.get(declared, "sequence", 0)),
		"gate": _number(object.get(build, "sequence", 0)),
		"overrides": _of_overrides(domain),
		"floor": _of_floor(domain),
		"freeze": _of_freeze(domain),
	},
} if {
	build := data.ledgeragent.gate.build
}

default _of_overrides(_) := 0

_of_overrides(domain) := _number(data.ledgeragent_overrides[domain].sequence)

default _of_floor(_) := 0

_of_floor(domain) := _number(data.ledgeragent_floor[domain].sequence)

default _of_freeze(_) := 0

_of_freeze(domain) := _number(data.ledgeragent_freeze[domain].sequence)

_number(sequence) := sequence if {
	request.is_count(sequence)
} else := 0
