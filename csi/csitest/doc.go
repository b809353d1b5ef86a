// Package csitest has a CSI driver in memory that checks the rules of the specification.
package csitest
