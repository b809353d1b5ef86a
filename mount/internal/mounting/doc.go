// Package mounting attaches built mounts to their targets. Files:
//
//   - maker: the entry points; arrival: one mount on its way into the mount table.
//   - target: the resolved target; submounts: the mounts below a source.
//   - existing: targets that are mount points already; verification: attached mounts.
//   - new_directory, remount: mounts at new directories, and changes of flags.
//
// # Glossary
//
//   - Arrival: one mount on its way into the mount table. Its counterpart is a departure.
//   - Tree: a built mount that is not visible yet, see package building.
//   - Attach: make a tree visible at its target. Revert: unmount it after a failed
//     verification.
//   - Overtaken: another process has mounted at the target in the same instant.
//   - Existing mount: the top mount at the target before the arrival.
//   - In flight: a call of an arrival that the kernel has not completed.
//   - Claim: the right of an arrival to change the mount table, see package inflight.
//   - Local: a target whose directory no file system with a server has locked, so that
//     attaching does not wait.
//
// # Guarantees
//
//   - A target has at most one arrival in flight, and one change of the mount table.
//   - After an error no mount of the arrival is attached, unless the error is uncertain.
//   - An arrival whose claim was revoked attaches nothing.
package mounting
