// Package service holds the common parts of the programs that run beside an API server: the connection,
// the wait for an object at the start, leader election, and the endpoints for metrics and health.
package service
