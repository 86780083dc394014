// Package telemetry writes metrics as lines in CloudWatch's embedded metric
// format, which Lambda's log delivery turns into metrics: no call, no agent.
//
// It guarantees that every line keeps the format's limits (lines over them are
// dropped silently by CloudWatch): at most 100 metrics and 100 values a metric,
// under 256 KB, and that no tenant is ever a dimension.
package telemetry
