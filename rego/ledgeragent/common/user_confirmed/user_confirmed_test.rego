package ledgeragent.common.user_confirmed_test

import data.ledgeragent.common.user_confirmed
import data.ledgeragent.gate
import data.ledgeragent.gate.fixtures_test as given

id := "common.user_confirmed"

declared := object.union(given.declared, {"tools": {"pay": {"guarded_by": [id, "demo.owner"]}}})

asked := json.patch(given.request, [{
	"op": "add",
	"path": ["session", "principal"],
	"value": {"id": "ada", "source": "host"},
}])

decide(request) := decision if {
	predicates := given.asked({id: user_confirmed, "demo.owner": given.holds}) with input as request
	decision := gate.decide("demo", declared, predicates) with input as request
}

confirmation := {
	"id": "grant-1",
	"kind": "user_confirmation",
	"predicates": [id],
	"domain": "demo",
	"session": "session-1",
	"tool": "pay",
	"arguments": {"amount": 5},
	"facts": "sha256:test",
	"approver": "ada",
	"issued": "2026-03-02T10:00:00-05:00",
	"expires": {"session": "2026-03-02T10:15:00-05:00", "host": "2026-03-02T15:15:00Z"},
}

confirmed(grant) := json.patch(asked, [{"op": "add", "path": ["grants"], "value": [grant]}])

finding := {
	"predicate": id,
	"status": "violated",
	"verdict": "revise",
	"mode": "enforce",
	"message": "The user has not yet confirmed pay with exactly these arguments.",
	"paths": [],
	"missing": [],
}

test_a_call_that_the_user_did_not_confirm_is_revised if {
	decision := decide(asked)
	[decision.verdict, decision.findings] == ["revise", [finding]]
	decision.obligations == [{"kind": "user_confirmation", "predicate": id, "approvers": null, "grant": null}]
}

test_the_confirmation_of_exactly_this_call_lifts_it if {
	decision := decide(confirmed(confirmation))
	decision.verdict == "allow"
	decision.findings == [object.union(finding, {"mode": "lifted"})]
	[row.grant | some row in decision.obligations] == ["grant-1"]
}

test_any_other_consent_confirms_nothing if {
	every change in [{"approver": "grace"}, {"kind": "approval"}, {"arguments": {"amount": 6}}, {"tool": "ping"}] {
		decide(confirmed(object.union(object.remove(confirmation, object.keys(change)), change))).findings == [finding]
	}
}
