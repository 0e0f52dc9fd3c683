# METADATA
# title: The facts that the predicates of deployments share
# description: |
#   Names for what the proposed call is about. Each is undefined when it was not read; predicates list the paths they rely
#   on as evidence, so that an undefined fact ends as unknown and not as a pass.
# schemas:
#   - input: schema["gate_input.schema"]
#   - input.ledger: schema.deployments["ledger.schema"]
package ledgeragent.deployments.facts

# METADATA
# title: The service that the call names, as read
service := input.ledger.services[service_name]

service_name := input.action.arguments.service

# METADATA
# title: The path of a field of that service
service_path(field) := ["services", service_name, field]

# METADATA
# title: The build that the call names, as read
build := input.ledger.builds[build_id]

build_id := input.action.arguments.build_id

# METADATA
# title: The path of a field of that build
build_path(field) := ["builds", build_id, field]

# METADATA
# title: The first ten characters of the session's clock
today := substring(input.session.now, 0, 10)
