package ledgeragent.gate.request_test

import data.ledgeragent.gate.fixtures_test as given
import data.ledgeragent.gate.request

problems(given_input) := found if found := request.problems("demo") with input as given_input

principal := {"id": "ada", "source": "host"}

write := {"tool": "pay", "arguments": {}}

grant := {
	"id": "grant-1",
	"kind": "approval",
	"predicates": ["demo.limit"],
	"domain": "demo",
	"session": "session-1",
	"tool": "pay",
	"arguments": {"amount": 5},
	"facts": "sha256:test",
	"approver": "grace",
	"issued": "2026-03-02T09:59:00-05:00",
	"expires": {"session": "2026-03-02T10:14:00-05:00", "host": "2026-03-02T15:14:00Z"},
}

entry := object.union(write, {"outcome": "executed"})

test_a_sound_request_has_no_problems if {
	problems(given.request) == set()
	problems(given.put(["session", "principal"], principal)) == set()
	problems(given.put(["session", "principal"], object.union(principal, {"claims": {"role": "x"}}))) == set()
	problems(given.put(["history"], [entry, object.union(entry, {"outcome": "pending"})])) == set()
	problems(given.put(["siblings"], [write])) == set()
	problems(given.put(["grants"], [grant, object.union(grant, {"kind": "user_confirmation"})])) == set()
	problems(given.put(["stale"], [["spent"], ["limit", "daily"]])) == set()
	problems(given.put(["session", "now"], "2026-03-02T10:00:00.5Z")) == set()
}

test_every_part_is_required if {
	every part in object.keys(given.request) { "fields" in problems(object.remove(given.request, [part])) }
	every part in object.keys(given.request) - {"grants"} { part in problems(object.remove(given.request, [part])) }
	problems(object.union(given.request, {"extra": 1})) == {"fields"}
}

test_what_is_no_object_has_every_problem if {
	everything := problems({})
	"stale value in ledger" in everything
	every other in [null, 5, "x", [], true] { problems(other) == everything }
	request.problems("demo") == everything
}

odd := [null, 5, true, "", [], ["x"], [null], {"x": 1}]

test_parts_of_another_type_are_problems if {
	every value in odd { problems(given.put(["contract"], value)) == {"contract"} }
	every value in odd { problems(given.put(["domain"], value)) == {"domain"} }
	every value in [null, 5, "", []] { problems(given.put(["request"], value)) == {"request"} }
	every value in odd { problems(given.put(["action"], value)) == {"action"} }
	every value in [null, 5, true, "", [], ["x"]] { "ledger" in problems(given.put(["ledger"], value)) }
	every value in [null, 5, true, "x", ["x"], [[]], [[1]], {}] { "stale" in problems(given.put(["stale"], value)) }
	every value in [null, 5, "x", {"x": 1}, [null], ["x"], [{}], [write]] {
		problems(given.put(["history"], value)) == {"history"}
	}
	every value in [null, 5, "x", {"x": 1}, [null], [{}], [entry]] {
		problems(given.put(["siblings"], value)) == {"siblings"}
	}
	every value in [null, 5, "x", {"x": 1}, [null], ["x"], [{}]] {
		problems(given.put(["grants"], value)) == {"grants"}
	}
}

test_elements_of_writes_are_checked if {
	changes := [{"tool": ""}, {"tool": 5}, {"arguments": []}, {"outcome": "refused"}, {"outcome": null}, {"more": 1}]
	every change in changes {
		problems(given.put(["history"], [entry, object.union(entry, change)])) == {"history"}
	}
}

test_grants_are_checked_field_by_field if {
	every field in object.keys(grant) {
		problems(given.put(["grants"], [object.remove(grant, [field])])) == {"grants"}
		every value in [null, true, 5, "", [], ["x", 5], {"x": 1}] { field in refused(field, value) }
	}
	every change in [
		{"more": 1},
		{"kind": "order"},
		{"predicates": [""]},
		{"issued": "2026-03-02"},
		{"expires": {"session": "2026-03-02T10:14:00-05:00"}},
		{"expires": {"session": "2026-03-02T10:14:00-05:00", "host": "soon"}},
	] {
		changed := object.union(object.remove(grant, object.keys(change)), change)
		problems(given.put(["grants"], [grant, changed])) == {"grants"}
	}
}

# Which field it is, where the grant with such a value is a problem; any object will do as arguments.
refused(field, value) := {field} if {
	problems(given.put(["grants"], [object.union(object.remove(grant, [field]), {field: value})])) == {"grants"}
} else := {"arguments"} if {
	is_object(value)
}

test_session_and_principal_are_checked_field_by_field if {
	every field in ["now", "turn", "rejections"] {
		every value in [null, true, "", [], {}, -1, 0.5, "2026-03-02T10:00:00", "2026-03-02"] {
			problems(given.put(["session", field], value)) == {"session"}
		}
	}
	every value in [null, true, "", [], {}, 5] { problems(given.put(["session", "id"], value)) == {"session"} }
	problems(given.put(["session", "extra"], 1)) == {"session"}
	every value in [5, "ada", [], {}, {"id": "ada"}] {
		problems(given.put(["session", "principal"], value)) == {"principal"}
	}
	every change in [{"id": ""}, {"id": 5}, {"source": "guess"}, {"claims": []}, {"extra": 1}] {
		problems(given.put(["session", "principal"], object.union(principal, change))) == {"principal"}
	}
}

test_the_action_is_checked_field_by_field if {
	every change in [{"call_id": 5}, {"tool": ""}, {"tool": null}, {"extra": 1}] {
		problems(given.put(["action"], object.union(given.request.action, change))) == {"action"}
	}
}

test_a_stale_value_that_is_still_in_the_ledger_is_a_problem if {
	problems(given.put(["stale"], [["limit"]])) == {"stale value in ledger"}
	problems(given.put(["stale"], [["limit", "daily"]])) == set()
}

test_the_request_id_is_echoed_only_when_it_is_text if {
	request.id == "request-1" with input as given.request
	request.id == "" with input as given.put(["request"], 5)
	request.id == ""
}

test_a_clock_shows_a_time_that_there_is if {
	every odd in [
		"2026-13-02T10:00:00Z",
		"2026-00-02T10:00:00Z",
		"2026-03-32T10:00:00Z",
		"2026-03-02T24:00:00Z",
		"2026-03-02T10:60:00Z",
		"2026-03-02T10:00:60Z",
		"2026-03-02T10:00:00+24:00",
		"2026-03-02T10:00:00",
		"2026-03-02 10:00:00Z",
	] {
		problems(given.put(["session", "now"], odd)) == {"session"}
	}
}

test_a_count_has_an_upper_limit if {
	problems(given.put(["session", "rejections"], 1000000000)) == set()
	every odd in [1000000001, 2147483648, 9007199254740991, 1e300] {
		problems(given.put(["session", "rejections"], odd)) == {"session"}
		problems(given.put(["session", "turn"], odd)) == {"session"}
	}
}
