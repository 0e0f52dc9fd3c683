# METADATA
# title: The policy gate
# description: |
#   Turns a domain's predicates into one decision. Shared by every domain; knows no business rule.
#   The gate is total: each predicate handed to it ends as exactly one of holds, unknown or violated, and whatever is
#   undefined, malformed or missing counts against the call. A violated one that states an obligation is lifted by a
#   grant that fulfils it; what the gate itself finds, and what is unknown, never is.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate

import data.ledgeragent.gate.arguments
import data.ledgeragent.gate.facts
import data.ledgeragent.gate.floor as organisation
import data.ledgeragent.gate.freeze
import data.ledgeragent.gate.grants
import data.ledgeragent.gate.overrides
import data.ledgeragent.gate.policy
import data.ledgeragent.gate.request
import data.ledgeragent.gate.text

# After this many rejections of one call, with the ledger unchanged, the next one is blocked.
loop_limit := 3

# METADATA
# title: The decision for the proposed call
# description: |
#   `domain` is the domain's name, `declared` its generated data (tools, optional paths, protected ids, revision),
#   `predicates` maps the id of every predicate that guards the proposed tool to an array: `[]` if it holds, `[[all]]`
#   with all of its package if it does not, and `[[]]` if there is no such package. The domain's page asks them so that
#   nothing else is evaluated of those that hold.
decide(domain, declared, predicates) := object.union(outcome, {
	"contract": "ledgeragent.decision/1",
	"request": request.id,
	"overrides": overrides.shown(domain, declared, outcome.predicates),
	"policy": policy.shown(domain, declared),
}) if {
	outcome := _outcome(domain, declared, predicates)
}

# The usual call keeps every rule, and the gate finds nothing either.
_outcome(domain, declared, predicates) := {
	"verdict": "allow",
	"findings": [],
	"predicates": sort(ids),
	"obligations": [],
} if {
	ids := {id | some id, [] in predicates}
	ids == object.keys(predicates)
	_gate_findings(domain, declared, predicates) == set()
} else := {
	"verdict": _verdict(findings),
	"findings": findings,
	"predicates": sort(judged),
	"obligations": _obligations(findings, predicates),
} if {
	gate_findings := _gate_findings(domain, declared, predicates)
	judged := _judged(gate_findings, predicates)
	own := {_lifted(finding, predicate) |
		some id in judged
		predicates[id] != []
		some predicate in _failing(predicates[id])
		finding := _finding(domain, declared, id, predicate)
	}
	findings := _sorted(_with_loop(gate_findings | own))
}

# Predicates may rely on a well-formed request and on arguments that fit: they are judged only then.
_judged(gate_findings, predicates) := object.keys(predicates) if {
	every finding in gate_findings { finding.predicate in _beside_predicates }
} else := set()

_beside_predicates := {"gate.floor", "gate.frozen", "gate.unguarded"}

# The first thing that is wrong with the request, the tool or its arguments; the later checks rely on the earlier.
_gate_findings(domain, declared, predicates) := {_blocked("gate.input", text.join([
	"The gate could not read this request. Malformed: ",
	concat(", ", sort(problems)),
	".",
]))} if {
	problems := request.problems(domain)
	problems != set()
} else := findings if {
	tool := _declared_tool(declared)
	findings := _call_findings(tool, predicates) | _standing_findings(domain, tool.effect, predicates)
} else := {_blocked("gate.tool", text.join([
	"The tool ",
	text.quote(input.action.tool),
	" is not declared in this domain, so no rule can judge it.",
]))} if {
	not _declared_tool(declared)
}

_declared_tool(declared) := tool if {
	tool := declared.tools[input.action.tool]
	tool.effect in {"read", "write", "none"}
	tool.parameters.type == "object"
}

_call_findings(tool, predicates) := {_gate_finding("gate.arguments", "revise", text.join([
	"The arguments do not fit ",
	input.action.tool,
	": ",
	concat("; ", sort(problems)),
	".",
]))} if {
	problems := arguments.problems(tool.parameters, input.action.arguments)
	problems != set()
} else := {_blocked("gate.unguarded", text.join([
	"The write ",
	input.action.tool,
	" is not guarded by the predicates it was declared with.",
]))} if {
	not _guarded(tool, predicates)
} else := set()

# What an organisation says of the call, whatever its rules say.
_standing_findings(domain, effect, predicates) := set() if {
	not freeze.is_loaded
	not organisation.is_loaded
} else := _standing("gate.frozen", freeze.reasons(domain, names)) | _standing("gate.floor", gaps) if {
	names := _names(effect)
	gaps := organisation.gaps(domain, names, object.keys(predicates))
}

_standing(id, sentences) := set() if {
	sentences == set()
} else := {_blocked(id, concat(" ", sort(sentences)))}

# What freeze and floor say of a tool by its name holds whatever effect the domain gives it.
_names("write") := {"*", input.action.tool}

_names(effect) := {input.action.tool} if effect != "write"

_guarded(tool, predicates) if {
	tool.effect == "write"
	object.keys(predicates) == {id | some id in tool.guarded_by}
	not [[]] in predicates
	_by_a_rule(tool)
}

_guarded(tool, _) if tool.effect in {"read", "none"}

# A write needs a rule of its own domain, or an owner who says why it has none.
_by_a_rule(tool) if {
	some id in tool.guarded_by
	not startswith(id, "common.")
}

_by_a_rule(tool) if tool.unguarded == true

_finding(domain, declared, id, predicate) := finding if {
	mode := overrides.mode(domain, declared, id)
	mode != "off"
	missing := _missing(declared, predicate)
	finding := _failed(domain, declared, id, predicate, mode, missing)
}

# Anything that is not what the page gives says nothing for the call.
_failing(found) := [predicate] if {
	predicate := found[0][0]
} else := [{"message": "This rule is not loaded."}] if {
	found == [[]]
} else := [{}]

_failed(domain, declared, id, predicate, mode, missing) := {
	"predicate": id,
	"status": "unknown",
	"verdict": "revise",
	"mode": mode,
	"message": _unknown_message(missing),
	"paths": _paths(predicate),
	"missing": missing,
} if {
	count(missing) > 0
} else := {
	"predicate": id,
	"status": "violated",
	"verdict": overrides.verdict(domain, declared, id, _own_verdict(predicate)),
	"mode": mode,
	"message": _own_message(predicate),
	"paths": _paths(predicate),
	"missing": [],
}

# What a grant lifts stays in the decision, and does not count.
_lifted(finding, predicate) := object.union(finding, {"mode": "lifted"}) if {
	_obligation(finding, predicate).grant != null
} else := finding

_obligation(finding, predicate) := grants.obligation(finding.predicate, predicate.obligation) if {
	finding.status == "violated"
	finding.mode in {"enforce", "lifted"}
}

# In the order of the findings; the gate's own have no predicate here.
_obligations(findings, predicates) := [obligation |
	some finding in findings
	some predicate in _failing(predicates[finding.predicate])
	obligation := _obligation(finding, predicate)
]

# Evidence that is not a set of paths is no evidence: then the predicate is violated, not unknown.
_missing(declared, predicate) := sort([row |
	some path in predicate.evidence
	row := {"path": path, "cause": facts.cause(declared, path)}
]) if {
	_sound(predicate)
} else := []

_paths(predicate) := sort([path | some path in predicate.evidence]) if {
	_sound(predicate)
} else := []

_sound(predicate) if {
	is_set(predicate.evidence)
	every path in predicate.evidence { request.is_path(path) }
}

_own_verdict(predicate) := "revise" if {
	predicate.verdict == "revise"
} else := "block"

_own_message(predicate) := predicate.message if {
	is_string(predicate.message)
} else := "The rule does not hold for the facts observed."

_unknown_message(missing) := text.join([
	"This cannot be decided yet. ",
	concat(" ", [sentence |
		some cause in ["missing", "stale"]
		names := sort({name | some row in missing; row.cause == cause; name := text.dotted(row.path)})
		count(names) > 0
		sentence := text.join([_cause_words[cause], concat(", ", names), "."])
	]),
])

_cause_words := {
	"missing": "Not read in this session: ",
	"stale": "Changed by a write since it was read: ",
}

_blocked(id, message) := _gate_finding(id, "block", message)

_gate_finding(id, verdict, message) := {
	"predicate": id,
	"status": "violated",
	"verdict": verdict,
	"mode": "enforce",
	"message": message,
	"paths": [],
	"missing": [],
}

_with_loop(findings) := findings | {_blocked("gate.loop", text.join([
	"This very call was rejected ",
	format_int(loop_limit, 10),
	" times or more, and nothing it depends on has changed since. Do not send it again.",
]))} if {
	some finding in findings
	finding.mode == "enforce"
	finding.predicate != "gate.input"
	input.session.rejections >= loop_limit
} else := findings

_sorted(findings) := [row[3] | some row in sort([row |
	some finding in findings
	row := [_rank[finding.verdict], _rank[finding.status], finding.predicate, finding]
])]

_rank := {"block": 0, "revise": 1, "violated": 0, "unknown": 1}

_verdict(findings) := "allow" if {
	every finding in findings { finding.mode in {"shadow", "lifted"} }
} else := "block" if {
	some finding in findings
	finding.mode == "enforce"
	finding.verdict == "block"
} else := "revise"
