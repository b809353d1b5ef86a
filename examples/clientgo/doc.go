// Package clientgo is the client that package recycler recycles volumes with, over
// client-go. It is a module of its own, so that the library does not require client-go:
// copy it.
package clientgo
