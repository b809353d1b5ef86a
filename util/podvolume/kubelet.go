package podvolume

import (
	"context"
	"path"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kubeletPlugin is the plugin by which the kubelet makes the directories of volumes, those of
// other plugins too. Its notes about the latter have a prefix.
const (
	kubeletPlugin = "kubernetes.io/empty-dir"
	wrappedPrefix = "wrapped_"
)

// kubeletNoteDir returns the directory of the kubelet's note about a volume of a pod. It is
// empty if the kubelet cannot have a note, because its name would be too long.
func kubeletNoteDir(host volume.VolumeHost, plugin string, n notes) (string, error) {
	name := path.Base(n.volume)
	if plugin != kubeletPlugin {
		name = wrappedPrefix + name
	}
	if volume.ValidatePathComponent(field.NewPath("volumeName"), name) != nil {
		return "", nil
	}
	own, err := host.PodPluginDir(n.pod, kubeletPlugin)
	return path.Join(own, name), err
}

// isKubelets reports whether the kubelet has set the volume up, in the wanted medium.
func (is podDirState) isKubelets(want Dir) bool {
	return is.byKubelet && (is.mounted && want.Mount != nil || is.isDir && want.Mount == nil)
}

// takeOver notes a volume that the kubelet has set up, and fills it. Owner and mode stay: the
// pod may have changed them. After an error the volume is the kubelet's as before, but for
// its content and the flags of its mount.
func (v *podDir) takeOver(ctx context.Context, want Dir) error {
	if want.Mount != nil {
		if err := v.mounts.Mount(ctx, v.dir, *want.Mount); err != nil {
			return err
		}
	}
	if err := v.fill(ctx, want); err != nil {
		return err
	}
	if err := v.notes.mark(noteOf(want), -1); err != nil {
		return util.Transient(err)
	}
	return nil
}
