// Package link sets network devices up and down, and makes pairs of them.
package link
