// Command vuln runs the pinned govulncheck over the module and decides which
// findings stop us.
//
// A vulnerability fails the run when our code reaches it in a dependency,
// unless it is listed with a reason in .ci/vuln/accepted.txt. What is wrong in
// the standard library of the toolchain at hand is printed only: another
// toolchain cures it, not a change here. Vulnerabilities in code that is
// required but not called are counted.
//
// The database is the Go team's, taken as the module golang.org/x/vulndb
// through the module proxy, so that no other host need be reached. Its newest
// version is asked for; without a network the newest one in the module cache
// is used, and its date is shown.
//
// infra is left out: it runs on the deployer's machine, ships nothing, and its
// generated bindings take longer to analyse than everything else together.
package main
