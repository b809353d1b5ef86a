// Package testflag reads the flags of a test binary without package testing: importing that
// would link it, and register its flags, in each program that uses a fake.
package testflag
