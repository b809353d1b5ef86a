// Package clientgo is an example: it implements the client of package recycler over client-go.
// Package recycler does not require client-go: copy this client into your program. The test of
// this package shows that a program with the oldest supported client-go builds and runs.
package clientgo
