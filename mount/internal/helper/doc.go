// Package helper runs helpers, the programs mount.TYPE that mount a file system type.
//
// # Glossary
//
//   - Helper: a program mount.TYPE, which mount(8) would also run.
//   - Place: the private directory at which a helper mounts.
//   - Type: a file system type in a request. The mount table may show another one.
//   - Network type: a type that has a helper on most machines, such as nfs.
//   - Configured type: a type with an entry in mount.Config.HelperTypes.
//   - Catalog: the directories with helpers, and the configured types.
//   - Run: one execution of a helper, in a process group of its own.
//   - Secret file: a file in memory by which a helper receives secrets, since every user can
//     read arguments.
//   - Credentials: a secret file of the administrator, which mount.cifs reads.
//   - Output: the text that a helper prints, for errors.
//
// # Guarantees
//
//   - A run ends soon after its context, and with this process.
//   - Neither arguments nor errors contain a secret.
//   - A helper that has failed leaves no process. A daemon of a helper that has succeeded
//     lives on.
package helper
