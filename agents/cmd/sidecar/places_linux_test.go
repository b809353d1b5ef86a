package main

import "path/filepath"

// places are the paths in the directory of a test:
//
//	disks                  the storage of disks
//	claims                 the storage of the local driver
//	controller             the directory of the driver of disks whose controller service the sidecar calls
//	NODE/root              the root of the volumes of a node
type places struct{ dir string }

func (p places) disks() string               { return filepath.Join(p.dir, "disks") }
func (p places) claims() string              { return filepath.Join(p.dir, "claims") }
func (p places) controller() string          { return filepath.Join(p.dir, "controller") }
func (p places) controllerSocket() string    { return filepath.Join(p.controller(), "csi.sock") }
func (p places) root(node string) string     { return filepath.Join(p.dir, node, "root") }
func (p places) registry(node string) string { return filepath.Join(p.root(node), "plugins_registry") }
func (p places) localSocket(node string) string {
	return filepath.Join(p.root(node), "plugins", localDriver, "csi.sock")
}

const (
	diskDriver  = "disk.csi.volumekit.io"
	localDriver = "local.csi.volumekit.io"
)
