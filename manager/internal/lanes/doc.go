// Package lanes limits the operations that run at the same time, by plugin and by backend, so
// that a slow plugin or server does not delay the volumes of another.
//
// # Glossary
//
//   - lane: the queue and the workers of the operations of one plugin
//   - worker: the right to run one operation in a lane; a slow operation no longer has one
//   - slow: in flight for longer than slowAfter, most likely on a server that does not respond
//   - backend: the server or device that operations wait for, with a limit of its own
//   - parked: waiting for an operation of the same backend to end
//   - admitted: with a reserved worker of the backend, after it was parked
//
// One goroutine, the manager's loop, calls it.
package lanes
