// Package testbed has helpers for tests of several packages: sizes of tests, trees and file
// systems, and attackers.
package testbed
