// Package demonstrationtest has the tests that all programs of package demonstration share. Only tests import
// it.
package demonstrationtest
