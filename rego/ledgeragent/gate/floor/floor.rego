# METADATA
# title: What an organisation demands of every team
# description: |
#   Policy data under `ledgeragent_floor.<domain>` names, for a tool or for `*` (every write), predicates that must
#   judge it (`tools`), and settings that a deployment may not replace (`settings`), each with an owner and a reason. A
#   write that lacks one is blocked, and no override weakens one. Data that is not what it should be blocks the domain.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate.floor

import data.ledgeragent.gate.request
import data.ledgeragent.gate.text

# METADATA
# title: Whether any floor is loaded, of whatever domain
is_loaded if data.ledgeragent_floor != {}

# METADATA
# title: What the proposed call lacks, as sentences
# description: |
#   `names` are those the call goes by - its tool's name, and `*` for a write; `enforced` the ids of the predicates that
#   judge it.
gaps(domain, names, enforced) := set() if {
	not is_loaded
} else := {"The floor of this domain is malformed; until that is mended, nothing passes."} if {
	not _sound(domain)
} else := {sentence |
	some name in names
	entry := data.ledgeragent_floor[domain].tools[name]
	lacking := {id | some id in entry.predicates} - enforced
	count(lacking) > 0
	sentence := text.join(["Not judged by ", text.list(lacking), ", which ", entry.owner, " demands: ", entry.reason])
}

# METADATA
# title: Whether the floor demands a predicate for the proposed tool
demands(domain, id) if {
	some name in {"*", input.action.tool}
	id in data.ledgeragent_floor[domain].tools[name].predicates
}

# METADATA
# title: Whether the floor keeps a deployment from replacing a setting
keeps(domain, key) if data.ledgeragent_floor[domain].settings[key]

_sound(domain) if {
	is_object(data.ledgeragent_floor)
	_is_sound(object.get(data.ledgeragent_floor, domain, {}))
}

_is_sound(own) if {
	is_object(own)
	object.keys(own) - {"sequence", "settings", "tools"} == set()
	request.is_count(object.get(own, "sequence", 0))
	tools := object.get(own, "tools", {})
	is_object(tools)
	every name, entry in tools {
		request.is_name(name)
		_is_demand(entry)
	}
	settings := object.get(own, "settings", {})
	is_object(settings)
	every name, entry in settings {
		request.is_name(name)
		_is_accounted(entry, {"owner", "reason"})
	}
}

_is_demand(entry) if {
	_is_accounted(entry, {"owner", "predicates", "reason"})
	is_array(entry.predicates)
	count(entry.predicates) > 0
	every id in entry.predicates { request.is_name(id) }
}

_is_accounted(entry, fields) if {
	is_object(entry)
	object.keys(entry) == fields
	request.is_name(entry.owner)
	request.is_name(entry.reason)
}
