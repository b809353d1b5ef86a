// Package clustertest starts API servers for the tests of the examples, with the accounts of programs.
package clustertest
