# METADATA
# title: What OPA's decision log may hold
# description: >-
#   Masks every event of the decision log by allow-list. The lists are the domains' own (`declared.log` in the generated
#   policy data of each, made of the `x-log` marks in its schema files): of the input and the result only what they name
#   is left, and of an event that is no domain's, or whose input is malformed, neither. What masks cannot reach is not
#   logged at all. `ledgeragent.marks` says how a list is built; `ledgeragent.masking` reads it the same way.
package system.log

# METADATA
# title: The masks of an event
# scope: document
mask contains {"op": "upsert", "path": sprintf("/%s", [part]), "value": value} if some part, value in _shown

mask contains sprintf("/%s", [part]) if some part in ({"input", "result", "nd_builtin_cache"} - object.keys(_shown))

# METADATA
# title: Whether an event holds what masks do not reach, such as a built-in's error that quotes its argument
drop if object.keys(input) - _event != set()

_event := {
	"batch_decision_id",
	"bundles",
	"decision_id",
	"input",
	"labels",
	"metrics",
	"nd_builtin_cache",
	"path",
	"req_id",
	"request_context",
	"requested_by",
	"result",
	"revision",
	"rule_labels",
	"span_id",
	"timestamp",
	"trace_id",
}

_masked := "(masked)"

_shown[part] := _allowed(_list[_name[part]], input[part]) if {
	input.input.domain == _domain
	some part in (object.keys(_name) & object.keys(input))
}

_name := {"input": "input", "result": "decision"}

_list := data.ledgeragent[_domain].declared.log

_domain := parts[1] if {
	parts := split(trim_left(input.path, "/"), "/")
	count(parts) == 3
	parts[0] == "ledgeragent"
	parts[2] in {"decision", "proof"}
}

# A value with everything masked that its list does not name. Level by level, as Rego does not recurse; what lies deeper
# than the last level is masked with what holds it.
_allowed(marks, value) := json.patch(value, array.concat(masks, removals)) if {
	_opens(marks, value)
	first := _below([{"marks": marks, "value": value, "path": []}])
	second := _below(first)
	third := _below(second)
	fourth := _below(third)
	fifth := _below(fourth)
	sixth := _below(fifth)
	seventh := _below(sixth)
	eighth := _below(seventh)
	ninth := _below(eighth)
	last := _below(ninth)
	inner := [node |
		some level in [first, second, third, fourth, fifth, sixth, seventh, eighth, ninth]
		some node in level
	]
	masks := array.concat(
		[_replacement(node) | some node in inner; node.marks != null; not _passes(node)],
		[_replacement(node) | some node in last; node.marks != null; not _fits(node.marks.value, node.value)],
	)
	removals := [{"op": "remove", "path": node.path} |
		some node in array.concat(inner, last)
		node.marks == null
	]
} else := _masked

_below(nodes) := [{"marks": _marks(node, key), "value": value, "path": array.concat(node.path, [key])} |
	some node in nodes
	_opens(node.marks, node.value)
	some key, value in node.value
]

_passes(node) if _fits(node.marks.value, node.value)

_passes(node) if _opens(node.marks, node.value)

_replacement(node) := {"op": "replace", "path": node.path, "value": _stand_in(node.marks, node.value)}

_stand_in(marks, value) := _path(value) if {
	marks.path
	is_array(value)
} else := _masked

# Whether what is below is looked at one by one.
_opens(marks, value) if {
	is_object(value)
	marks.fields
}

_opens(marks, value) if {
	is_object(value)
	marks.keys
}

_opens(marks, value) if {
	is_array(value)
	marks.items
}

# The marks of what stands under a key; null when the key itself may not be shown.
_marks(node, key) := _call(node.value) if {
	node.marks.call
	key == "arguments"
} else := node.marks.items if {
	is_array(node.value)
} else := marks if {
	marks := node.marks.fields[key]
} else := node.marks.each if {
	_fits(node.marks.keys, key)
} else := null

_call(call) := _list.tools[call.tool] if {
	_list.tools[call.tool]
} else := {"each": {}, "keys": []}

# A path of the ledger: its keys are shown as far as the ledger shows them.
_path(path) := [_path_key(steps, place, key) | some place, key in path] if {
	facts := _list.input.fields.ledger
	first := _step(facts, path, 0)
	second := _step(first, path, 1)
	third := _step(second, path, 2)
	fourth := _step(third, path, 3)
	fifth := _step(fourth, path, 4)
	sixth := _step(fifth, path, 5)
	seventh := _step(sixth, path, 6)
	steps := [facts, first, second, third, fourth, fifth, sixth, seventh]
}

_step(marks, path, place) := _marks({"marks": marks, "value": {}}, path[place]) if {
	path[place]
} else := null

_path_key(steps, place, key) := key if {
	_marks({"marks": steps[place], "value": {}}, key) != null
} else := "?" if {
	key == "?" # no key, but whatever is not there
} else := _masked

_fits(checks, value) if {
	some check in checks
	every kind, rule in check { _holds(kind, rule, value) }
}

_holds("types", rule, value) if {
	some name in rule
	_is_type(name, value)
}

_holds("enum", rule, value) if value in rule

_holds("patterns", _, value) if not is_string(value)

_holds("patterns", rule, value) if {
	is_string(value)
	every pattern in rule { regex.match(pattern, value) }
}

_is_type("string", value) if is_string(value)

_is_type("boolean", value) if is_boolean(value)

_is_type("null", value) if is_null(value)

_is_type("number", value) if is_number(value)

_is_type("integer", value) if {
	is_number(value)
	value == floor(value)
}
