// Package abreast runs commands in parallel, and prints their outputs one after another.
package abreast
