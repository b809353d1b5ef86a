// Package plugincall helps to call plugins and sources, which are not part of the manager and
// may panic.
//
// # Glossary
//
//   - panic: of a plugin or of the source; it becomes an uncertain error, because the call may
//     have changed anything before it
//   - stack: where the panic was; it is logged, and not part of the error's text
package plugincall
