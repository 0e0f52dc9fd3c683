# METADATA
# title: The emergency switch
# description: |
#   Policy data under `ledgeragent_freeze.<domain>.tools` names tools, or `*` for every write of the domain, each with
#   an owner, a reason and the day since when. What it names is blocked; nothing in it can allow anything. Data that is
#   not what it should be freezes the whole domain: whoever wrote it wanted something stopped.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate.freeze

import data.ledgeragent.gate.request
import data.ledgeragent.gate.text

# METADATA
# title: Whether any freeze data is loaded, of whatever domain
is_loaded if data.ledgeragent_freeze != {}

# METADATA
# title: Why the proposed call is frozen, as sentences
# description: |
#   `names` are those the call goes by - its tool's name, and `*` for a write.
reasons(domain, names) := set() if {
	not is_loaded
} else := {"The freeze data of this domain is malformed; until that is mended, all is frozen."} if {
	not _sound(domain)
} else := {sentence |
	some name in names
	entry := data.ledgeragent_freeze[domain].tools[name]
	sentence := text.join([_subject(name), " is frozen by ", entry.owner, " since ", entry.since, ": ", entry.reason])
}

_subject("*") := "Every write"

_subject(name) := name if name != "*"

_sound(domain) if {
	is_object(data.ledgeragent_freeze)
	_is_sound(object.get(data.ledgeragent_freeze, domain, {"tools": {}}))
}

_is_sound(own) if {
	is_object(own)
	object.keys(own) - {"sequence"} == {"tools"}
	request.is_count(object.get(own, "sequence", 0))
	is_object(own.tools)
	every name, entry in own.tools {
		request.is_name(name)
		_is_entry(entry)
	}
}

_is_entry(entry) if {
	is_object(entry)
	object.keys(entry) == {"owner", "reason", "since"}
	request.is_name(entry.owner)
	request.is_name(entry.reason)
	request.is_date(entry.since)
}
