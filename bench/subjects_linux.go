package main

// A subject is measured in a process of its own, in an empty directory.
type subject struct {
	name    string
	measure func(*bench) error
	disk    bool // the directory is on a disk; otherwise in memory
}

// subjects are all subjects. Each has a file of this package.
var subjects = []subject{
	{name: "bind", measure: measureBind},
	{name: "mountpoint", measure: measureMountPoint},
	{name: "list", measure: measureList},
	{name: "refs", measure: measureRefs},
	{name: "local", measure: measureLocal, disk: true},
	{name: "concurrency", measure: measureConcurrency},
	{name: "subpath", measure: measureSubpath},
	{name: "emptydir", measure: measureEmptyDir, disk: true},
	{name: "atomicdir", measure: measureAtomicdir, disk: true},
	{name: "ownership", measure: measureOwnership, disk: true},
	{name: "removal", measure: measureRemoval, disk: true},
	{name: "deep", measure: measureDeep, disk: true},
	{name: "manager", measure: measureManager, disk: true},
	{name: "restart", measure: measureRestart, disk: true},
	{name: "event", measure: measureEvent, disk: true},
}
