// Package neverstuck has the tests of one promise of all public packages: a call returns soon
// after its context ends, even if file systems hang.
package neverstuck
