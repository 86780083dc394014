// Package policy is the configuration of a deployment: lanes, task classes, tiers, priorities, dependencies, and the
// tenants that seed an empty table.
//
// What it guarantees: a *Config obtained from New, FromCompiled or the loader in package policyfile is complete (defaults
// filled in), valid as a whole (every reference resolves, every value is in its range, exactly one lane has the role
// retry) and is not changed afterwards, so it may be shared between goroutines. All faults of a configuration are
// reported together. Compile yields the same bytes for configurations that mean the same, and Hash identifies them.
//
// Every key, its unit, range and default stands in the struct tags and comments of config.go and classes.go; the defaults
// that depend on other keys are in fill. The JSON Schema in events/config.schema.json is generated from the same place.
//
// Functions load the compiled JSON with FromCompiled; only package policyfile links a YAML library.
package policy
