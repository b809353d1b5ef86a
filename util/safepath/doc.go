// Package safepath opens, creates and removes directories at paths that an
// attacker may be changing at the same time.
//
// A path is resolved once, from the root, by file descriptor, and never through a
// symbolic link (openat2(2) with RESOLVE_NO_SYMLINKS; where the kernel lacks it,
// component by component). By swapping a component for a symbolic link an attacker
// can make a call fail, with ELOOP or ENOTDIR, but can never make it act elsewhere. For a
// path that passes through a symbolic link by design, the caller resolves the trusted
// part first, once: filepath.EvalSymlinks.
//
// A call whose context ends returns soon after, with an error that wraps ctx.Err() and the
// cause. Its current system call may still finish later. The next call for the same path
// waits for that.
//
// Paths are absolute and contain no "..". Other systems than Linux have the same functions,
// implemented by os.Root, for tests on a developer's machine.
package safepath
