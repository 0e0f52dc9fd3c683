package ledgeragent.common.no_repeat_write_test

import data.ledgeragent.retail.fixtures_test as given

id := "common.no_repeat_write"

arguments := given.cancel.action.arguments

repeated := given.violated(
	id,
	"revise",
	concat(" ", [
		"The last write of this conversation was already cancel_pending_order with exactly these arguments.",
		"It must not be sent a second time.",
	]),
	[],
)

test_holds_for_the_first_write if given.of(id, given.cancel) == "holds"

test_guards_every_write if {
	every write in given.writes { given.of(id, given.after(write, write.action.tool, write.action.arguments)) != "holds" }
}

test_violated_by_the_last_write_whatever_its_outcome if {
	every outcome in ["executed", "uncertain", "pending"] {
		earlier := given.after(given.cancel, "cancel_pending_order", arguments)
		given.of(id, given.put(earlier, ["history", "0", "outcome"], outcome)) == repeated
	}
}

test_violated_by_the_write_admitted_before_it_in_the_same_message if {
	sibling := {"tool": "cancel_pending_order", "arguments": arguments}
	given.of(id, given.put(given.cancel, ["siblings", "-"], sibling)) == repeated
}

test_only_the_last_write_counts if {
	earlier := given.after(given.cancel, "cancel_pending_order", arguments)
	given.of(id, given.after(earlier, "modify_user_address", {"user_id": "x"})) == "holds"
	sibling := {"tool": "cancel_pending_order", "arguments": {"order_id": "#W9"}}
	given.of(id, given.put(earlier, ["siblings", "-"], sibling)) == "holds"
}

test_other_arguments_or_another_tool_are_no_repetition if {
	other := object.union(arguments, {"reason": "ordered by mistake"})
	given.of(id, given.after(given.cancel, "cancel_pending_order", other)) == "holds"
	given.of(id, given.after(given.cancel, "modify_pending_order_address", arguments)) == "holds"
}
