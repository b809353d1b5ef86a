// Package testbed is what tests of several packages stand on: how much of a thing they
// do, trees and file systems of their own, and attackers.
package testbed
