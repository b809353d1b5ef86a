//go:build !linux

package table

// A Cache finds no mounts on other systems.
type Cache struct{}

// Close does nothing.
func (c *Cache) Close() {}
