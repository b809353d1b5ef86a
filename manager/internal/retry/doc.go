// Package retry says how long a failed operation waits before it is tried again.
//
// # Glossary
//
//   - backoff: the pause after a failure, its length and its end; each further failure doubles
//     the length, up to a limit
//   - failed attempt: the backoff of a failed operation, with the mount state of the failure:
//     when the mounts at its path change, the operation is tried again at once
package retry
