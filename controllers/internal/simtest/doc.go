// Package simtest has the parts that simulations of controllers share: the faults of an API server in
// memory, processes that crash, and the trace of a seed.
package simtest
