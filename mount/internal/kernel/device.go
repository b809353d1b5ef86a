package kernel

// A Device is the number of a file system.
type Device struct{ Major, Minor uint32 }
