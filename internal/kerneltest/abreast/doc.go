// Package abreast runs commands side by side, and shows what they say one after
// another.
package abreast
