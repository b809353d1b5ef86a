// Package volume holds the nouns of the Kubernetes volume lifecycle.
package volume
