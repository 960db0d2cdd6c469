"""HTTP: parse, ask the service, render. `routes` is the one table of what there is; the OpenAPI document is made from it."""
