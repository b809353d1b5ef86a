// Package beneathtest helps to test packages that use beneath.
package beneathtest
