// Package mountcheck checks whether another process has unmounted or replaced the mounts of
// volumes.
//
// # Glossary
//
//   - expected mount: a mount that exists unless another process has changed it
//   - gone: nothing is mounted at its path
//   - replaced: a mount with another ID is at its path
//   - unchecked: its check failed, as on a server that does not respond; it is checked again
//     after a pause
//   - changed: a failed operation whose mount state differs from that of its failure
//   - queue: the mounts that the next check covers, because of mount events
//   - timer: says when the next check is due
//
// A check only reads the mount table and paths. The manager's loop records its result.
package mountcheck
