// Package operation names the operations of the manager, and holds those in flight.
//
// # Glossary
//
//   - verb: the kind of an operation, such as set up
//   - operation: a verb for one volume, and for one pod if it is a set-up or a tear-down
//   - shared step: attach and mount device, done once for all pods of a volume
//   - bring up: attach, mount device and set up; take down: their opposites
//   - flight: an in-flight operation, until its work has ended, also after it was cancelled
//   - lane: the operations of one plugin, which share workers; attach and detach have their own
//   - backend: the server or device that operations wait for
//
// Expand has no opposite.
package operation
