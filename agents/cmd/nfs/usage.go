package main

import (
	"fmt"

	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
)

// usage returns the volume's usage as text, without values that were not measured.
func usage(m *volume.Metrics) string {
	text := fmt.Sprintf("%s of %s used, %s available", size(m.Used), size(m.Capacity), size(m.Available))
	if m.Inodes != nil && m.InodesUsed != nil && m.Inodes.Value() > 0 {
		text += fmt.Sprintf("; %d of %d files", m.InodesUsed.Value(), m.Inodes.Value())
	}
	return text
}

// size formats a number of bytes for people.
func size(q *resource.Quantity) string {
	if q == nil {
		return "?"
	}
	const kilo = 1024
	value, unit := float64(q.Value()), 0
	for value >= kilo && unit < len(units)-1 {
		value, unit = value/kilo, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
