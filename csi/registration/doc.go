// Package registration finds the CSI drivers of a node, and registers drivers there.
package registration
