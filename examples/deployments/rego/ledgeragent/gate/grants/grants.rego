# METADATA
# title: What a person's consent is worth
# description: |
#   A predicate may state an `obligation`: what lifts its finding once it is violated. Only a grant of that kind for
#   this predicate, made out for this session and exactly this call, in force by the session's clock and given by the
#   right person lifts it. The host has verified its signature, that the facts are those the person saw, and that it was
#   not used before; nothing of that can be seen here. A predicate that states no sound obligation is never lifted.
# schemas:
#   - input: schema["gate_input.schema"]
package ledgeragent.gate.grants

import data.ledgeragent.gate.clock
import data.ledgeragent.gate.request

# METADATA
# title: The kinds of consent
kinds := {"approval", "user_confirmation"}

# METADATA
# title: What a violated predicate asks for, as the decision lists it; undefined where nothing lifts it
# description: |
#   `stated` is the predicate's `obligation`: a `kind` and, where not everybody who may sign will do, the `approvers`.
#   `grant` is the id of the grant that lifts it, or null.
obligation(id, stated) := {
	"kind": stated.kind,
	"predicate": id,
	"approvers": _approvers(stated),
	"grant": _grant(id, stated),
} if {
	_is_sound(stated)
}

_is_sound(stated) if {
	is_object(stated)
	object.keys(stated) - {"approvers"} == {"kind"}
	stated.kind in kinds
	_are_approvers(object.get(stated, "approvers", []))
}

_are_approvers(names) if {
	is_array(names)
	every name in names { request.is_name(name) }
}

_are_approvers(names) if {
	is_set(names)
	every name in names { request.is_name(name) }
}

_approvers(stated) := sort({name | some name in stated.approvers}) if {
	stated.approvers
} else := null

_grant(id, stated) := fitting[0] if {
	fitting := sort([grant.id | some grant in input.grants; _fits(grant, id, stated)])
	count(fitting) > 0
} else := null

_fits(grant, id, stated) if {
	grant.kind == stated.kind
	id in grant.predicates
	grant.domain == input.domain
	grant.session == input.session.id
	grant.tool == input.action.tool
	grant.arguments == input.action.arguments
	_in_force(grant)
	_given_by(stated.kind, grant.approver)
	_may_give(stated, grant.approver)
}

_in_force(grant) if {
	now := clock.seconds(input.session.now, input.session.now)
	clock.seconds(grant.issued, input.session.now) <= now
	clock.seconds(grant.expires.session, input.session.now) > now
}

# Who asked cannot approve, and nobody but the user can confirm; without a principal nobody knows who asked.
_given_by("approval", approver) if approver != input.session.principal.id

_given_by("user_confirmation", approver) if approver == input.session.principal.id

_may_give(stated, approver) if approver in stated.approvers

_may_give(stated, _) if object.keys(stated) == {"kind"}
