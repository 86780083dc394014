// Command pack builds the Lambda functions, for arm64 unless told otherwise, and zips each into
// OUT/<function>.zip, ready for the provided.al2023 runtime.
//
// The same sources and toolchain give the same bytes: paths are trimmed, no
// commit is stamped in, and the archive carries fixed times and modes. So an
// unchanged function keeps its asset hash and is not deployed again.
//
//	go run ./functions/internal/pack -o build [-arch GOARCH] [-config FILE] [FUNCTION...]
package main
