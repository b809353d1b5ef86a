// Package safepath opens, creates and removes directories at paths that an
// attacker may be changing at the same time.
//
// A path is resolved once, from the root, by file descriptor, and never through
// a symbolic link (openat2(2) with RESOLVE_NO_SYMLINKS; where the kernel lacks
// it, component by component). Whoever swaps a component for a symbolic link
// makes a call fail, with ELOOP or ENOTDIR, but never makes it act elsewhere.
// Paths that pass through a symbolic link by design are resolved beforehand,
// once, by who trusts them: filepath.EvalSymlinks.
//
// Paths are absolute and have no ".." in them. Other systems than Linux get the
// same functions with os.Root beneath, for tests on a developer's machine.
package safepath
