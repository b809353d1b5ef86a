package poddirs

import (
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// A Volume is a path where the volume of a pod would be.
type Volume struct {
	Pod          types.UID
	Plugin, Name string // the plugin as escaped in the path
	Path         string
	Block        bool
}

// Dir names the directory; the plugin is empty if its name is invalid.
func (f Volume) Dir() naming.PodDir {
	plugin, _ := volume.UnescapeQualifiedName(f.Plugin)
	return naming.PodDir{Pod: f.Pod, Plugin: plugin, Name: f.Name}
}
