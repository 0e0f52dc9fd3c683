# METADATA
# title: What a deployment changed
# description: |
#   Policy data under `ledgeragent_overrides.<domain>` may put a predicate in shadow, switch it off or change its
#   verdict (`predicates.<id>`), and replace the domain's own thresholds, reasons and tables (`settings.<key>`, with a
#   `value`), always with an owner, a reason and the last day it is in force. An entry that is incomplete, expired, or
#   weakens what is protected or of the floor changes nothing; every entry is shown in the decision, applied or not.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate.overrides

import data.ledgeragent.gate.floor as organisation
import data.ledgeragent.gate.request

# METADATA
# title: Whether any overrides are loaded, of whatever domain
is_loaded if data.ledgeragent_overrides != {}

# METADATA
# title: How a predicate is enforced - enforce, shadow or off
mode(domain, declared, id) := entry.mode if {
	entry := _entry(domain, id)
	_in_force(domain, declared, id, entry)
	entry.mode in {"shadow", "off"}
} else := "enforce"

# METADATA
# title: The verdict of a violated predicate
verdict(domain, declared, id, own) := entry.verdict if {
	entry := _entry(domain, id)
	_in_force(domain, declared, id, entry)
	entry.verdict in {"revise", "block"}
} else := own

# METADATA
# title: A setting in force - the domain's own value, or what the deployment put in its place
setting(domain, key, own) := entry.value if {
	entry := data.ledgeragent_overrides[domain].settings[key]
	_setting_in_force(domain, key, entry)
} else := own

# METADATA
# title: The entries that concern these predicates, and all settings, sorted
shown(domain, declared, ids) := [] if {
	not is_loaded
} else := array.concat(
	[_row(id, entry, applied) |
		some id in sort(ids)
		entry := _entry(domain, id)
		applied := _applied(domain, declared, id, entry)
	],
	[_row(concat(".", ["settings", key]), entry, applied) |
		some key in sort(object.keys(_settings(domain)))
		entry := _settings(domain)[key]
		applied := _setting_applied(domain, key, entry)
	],
)

_row(target, entry, applied) := {
	"target": target,
	"mode": _text(entry, "mode"),
	"verdict": _text(entry, "verdict"),
	"owner": _text(entry, "owner"),
	"reason": _text(entry, "reason"),
	"expires": _text(entry, "expires"),
	"applied": applied,
}

_settings(domain) := data.ledgeragent_overrides[domain].settings if {
	is_object(data.ledgeragent_overrides[domain].settings)
} else := {}

_setting_applied(domain, key, entry) if {
	_setting_in_force(domain, key, entry)
} else := false

_setting_in_force(domain, key, entry) if {
	not organisation.keeps(domain, key)
	_accounted(entry)
	object.keys(entry) == {"owner", "reason", "expires", "value"}
}

_entry(domain, id) := data.ledgeragent_overrides[domain].predicates[id]

_applied(domain, declared, id, entry) if {
	_in_force(domain, declared, id, entry)
} else := false

_in_force(domain, declared, id, entry) if {
	_accounted(entry)
	_complete(entry)
	_permitted(domain, declared, id, entry)
}

_accounted(entry) if {
	_text(entry, "owner") != ""
	_text(entry, "reason") != ""
	request.is_date(entry.expires)
	entry.expires >= substring(input.session.now, 0, 10)
}

_complete(entry) if {
	every value in entry { is_string(value) }
	_text(entry, "mode") in {"", "enforce", "shadow", "off"}
	_text(entry, "verdict") in {"", "revise", "block"}
	object.keys(entry) - {"owner", "reason", "expires", "mode", "verdict"} == set()
}

# Without a list of protected predicates none may be weakened.
_permitted(domain, declared, id, _) if {
	is_array(declared.protected)
	not _is_protected(declared, id)
	not organisation.demands(domain, id)
}

_is_protected(declared, id) if id in declared.protected

_permitted(_, _, _, entry) if not _weakens(entry)

_weakens(entry) if entry.mode in {"shadow", "off"}

_weakens(entry) if entry.verdict == "revise"

_text(entry, key) := entry[key] if {
	is_string(entry[key])
} else := ""
