package ledgeragent.gate.history_test

import data.ledgeragent.gate.history

test_siblings_come_after_the_writes_before_this_message if {
	executed := history.executed with input as {"history": ["first", "second"], "siblings": ["third"]}
	executed == ["first", "second", "third"]
}

test_undefined_for_what_are_no_lists if {
	not history.executed with input as {"history": 5, "siblings": []}
	not history.executed with input as {"history": [], "siblings": {}}
	not history.executed
}
