"""`ledgeragent serve`: sessions behind HTTP, for agents in any language.

`bodies` are the requests and answers, `refusals` the errors, `kept` holds the sessions in memory or in Redis,
`operations` is what can be done with one, `desk` keeps the calls of a session in order and answers repeated ones alike,
`http` is the server, `openapi` its description.
"""
