// Package connection connects to CSI drivers and calls them.
package connection
