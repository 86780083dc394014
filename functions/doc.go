// Package functions is the parent of the Lambda functions. Each folder beside
// this file that holds a main.go is one function and becomes one package,
// build/<folder>.zip, by `make build`.
//
// A main only wires: environment, configuration, clients, service,
// lambda.Start. The tests here hold what is deployed to its limits: size,
// processor, contents, and what is linked in.
package functions
