// Package roundtrip runs the real services over the real DynamoDB and SQS
// adapters against an emulator, with faults where the network is: at the HTTP
// round trip under the SDK. What is tested is what no fault above the adapters
// reaches: which errors the SDK repeats, what a repeated request does, what is
// made of an answer that broke off.
//
// Everything goes on in real time, so nothing here depends on how fast it is;
// a seed decides about the faults and the clients, and is printed.
package roundtrip
