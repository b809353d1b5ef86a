// Package nfs chooses the address of the server and the protocol version for mounts of NFS
// that the kernel makes without a helper. With a helper, mount.nfs chooses both.
//
// # Glossary
//
//   - Source: server and export, "server:/export".
//   - Address: one IP address of the server.
//   - Client: the address of this machine at which the server can call back. Version 4.0
//     needs it.
//   - Version: an option "vers=4.2". Version 3 needs further programs and is not tried.
//   - Attempt: one mount, with one address and one version.
//   - Share: the part of the time until the deadline that one address may use.
//
// # Guarantees
//
//   - Attempts end with the first success, with the first error that another version cannot
//     avoid, or soon after the end of the context.
//   - An address that does not answer delays the next one for its share at most.
package nfs
