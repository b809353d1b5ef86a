// Package waiters holds the calls that wait for the volumes of a pod, or of all pods.
//
// # Glossary
//
//   - waiter: a call that checks the published state again each time it is woken
//   - channel of a waiter: of length one, so that a wake-up between two checks is kept
//   - wake: let the waiters of pods, and those of all pods, check again
package waiters
