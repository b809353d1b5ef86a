package operation

// A LaneKey names a lane: the operations of one plugin, which share workers. Attach and
// detach operations, which wait for other machines, have a lane of their own.
type LaneKey struct {
	Plugin   string
	Attaches bool
}

// A Backend is a server or a device that operations wait for. A volume without a known
// backend is its own.
type Backend struct{ Plugin, Name string }
