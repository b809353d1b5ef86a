// Package beneathtest runs tests of what stands on beneath.
package beneathtest
