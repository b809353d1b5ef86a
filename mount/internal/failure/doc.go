// Package failure holds the errors of package mount that its rooms return. Package mount
// exports each under the same name, with its meaning for callers.
//
// # Glossary
//
//   - Cause: an error of the kernel, usually a unix.Errno. Every error here wraps one, or is
//     wrapped together with one.
//   - Kind: an error value that callers find by errors.Is, such as [ErrUncertain].
//   - Uncertain: it is not known whether a call changed the mount table.
//   - Input error: the refusal of a field of a request or configuration, before any change.
//
// # Guarantees
//
//   - A kind adds no text to an uncertain error: the text is the cause's.
//   - The package makes no system call, on any system.
package failure
