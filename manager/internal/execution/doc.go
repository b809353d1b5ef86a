// Package execution runs the operations of the manager. It has one type for each verb, with the
// work, the actual state while the work is in flight, and the actual state afterwards:
//
//	attach.go       mountdevice.go     setup.go      expand.go
//	detach.go       unmountdevice.go   teardown.go
//
// # Glossary
//
//   - job: an operation with all its inputs; it reads no shared state while it runs
//   - outcome: the result of a job, with the actual state afterwards
//   - step: the work of one verb and its effect on the actual state
//   - runner: writes the record, runs the step, and updates the record
//   - in flight: from the start to the end of the work; the parts that the step changes are
//     uncertain
//   - silent: without an event, such as an expansion with nothing to grow
//   - device release: a device in use is neither detached nor reported as not in use
//
// An error of an interrupted step is uncertain: the step may be half done.
package execution
