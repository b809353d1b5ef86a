// Package subject runs a client of a CSI driver in a process of its own, as a benchmark measures it.
//
// # Glossary
//
//   - subject: a client with its process.
//   - order: a line of JSON that the benchmark writes to a subject.
//   - report: the line of JSON with which a subject answers.
package subject
