"""The models that are shipped, each with the extra it needs. Anything with `generate` is a model as well."""
