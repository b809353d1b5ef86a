// Package connection calls the services of CSI drivers over Unix sockets.
//
// Words of this package:
//
//   - endpoint: the path of the Unix socket on which a driver serves.
//   - session: a gRPC connection from its beginning until the driver closes it. A [Connection] holds
//     at most one session for new calls, and replaces it after a loss.
//   - lost: the state of a session whose socket connection has ended.
//   - unsent: the state of a call whose request has not left this process, so that the driver
//     cannot have acted on it.
//   - secret: a value of a request field that the specification marks with the option csi_secret, and
//     a service account token in a volume context.
//
// Drivers are untrusted: a driver that hangs costs its callers [Timeout] each, messages have at most
// [MaxMessage] bytes, and texts of drivers are cut, and lose their control characters and secrets,
// before they become part of an error.
package connection
