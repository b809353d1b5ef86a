// Package simtest has the parts that simulations of controllers share: a cluster with an API server in
// memory, its faults, programs in processes that crash, and the trace of a seed.
package simtest
