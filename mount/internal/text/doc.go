// Package text prepares paths and other text from outside for error messages: bounded in
// length, and quoted where a reader could mistake it for the message itself.
package text
