package ledgeragent.gate.text_test

import data.ledgeragent.gate.text

test_texts_are_shown_as_they_are_and_long_ones_cut if {
	text.show("ä") == "ä"
	text.show(concat("", [letter | some _ in numbers.range(1, 90); letter := "x"])) == concat("", [letter |
		some _ in numbers.range(1, 80)
		letter := "x"
	])
}

test_other_values_are_shown_by_their_type if {
	[text.show(value) | some value in [null, true, 5, [], {}, set()]] == [
		"(null)",
		"(boolean)",
		"(number)",
		"(array)",
		"(object)",
		"(set)",
	]
	text.quote("x") == `"x"`
	text.quote(5) == `"(number)"`
}

test_paths_are_dotted if text.dotted(["orders", "#W1", "status"]) == "orders.#W1.status"

test_lists_are_sorted_and_joined_as_people_do if {
	text.list([]) == "none"
	text.list(set()) == "none"
	text.list(["b"]) == "b"
	text.list({"b", "a"}) == "a and b"
	text.list(["c", "a", "b", "a"]) == "a, b and c"
	text.list([5, "a"]) == "(number) and a"
	text.list({"x": "a"}) == "a"
}

test_what_is_no_list_holds_nothing if {
	every value in [null, true, 5, "abc"] { text.list(value) == "none" }
}

test_long_lists_are_cut if {
	many := [format_int(number, 10) | some number in numbers.range(100, 121)]
	text.list(many) == concat("", [concat(", ", array.slice(many, 0, 20)), " and 2 more"])
	text.list(array.slice(many, 0, 20)) == concat(" and ", [concat(", ", array.slice(many, 0, 19)), "119"])
}

test_parts_are_joined_without_anything_between if text.join(["a", "", "b"]) == "ab"

test_whole_numbers_are_written_as_they_are if {
	text.number(0) == "0"
	text.number(-17) == "-17"
	text.number(2147483647) == "2147483647"
	text.number(5.0) == "5"
}

test_other_values_are_written_by_their_type if {
	every value in [2147483648, -2147483648, 1.5, 1e300] { text.number(value) == "(number)" }
	text.number("7") == "(string)"
	text.number(null) == "(null)"
}
