// Package link takes network devices up and down.
package link
