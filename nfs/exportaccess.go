package nfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// exportAccess gives calls access to the files of the export.
type exportAccess struct {
	plugin    *Plugin
	export    source
	names     []source     // of the export: its own one, and the aliases
	spec      *volume.Spec // of the whole export
	mountedAt string       // ProvisioningConfig.Dir
	own       string       // the directory of the mount points
	calls     keylock.Map  // by volume; held until the work of a call has ended
}

// spec returns a volume of the export.
func (s source) spec(name string, options []string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: s.server, Path: s.path}},
			MountOptions:           options,
		},
	}, false)
}

// accessPod returns a pod that exists only as an argument of the plugin.
func accessPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "provision-" + name, UID: types.UID("provision-" + name)}}
}

// within calls do with the export. If ctx ends first within returns soon, with an error that is
// uncertain if do may have begun; later calls for the volume wait for the end of do.
func (e *exportAccess) within(ctx context.Context, pvName string, do func(context.Context, *exportTree) error) error {
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	type ended struct{ err error }
	work := func() (ended, error) { return ended{e.run(ctx, pvName, do)}, nil }
	end, began, err := keylock.Await(ctx, e.calls.Key(pvName), ctxend.Plugin, work, nil)
	switch {
	case err == nil:
		return end.err
	case !began:
		return volume.AsTransient(fmt.Errorf("wait for an earlier call for the volume: %w", err))
	}
	return volume.AsUncertain(err)
}

func (e *exportAccess) run(ctx context.Context, pvName string, do func(context.Context, *exportTree) error) error {
	if e.mountedAt != "" {
		ended, err := runAt(ctx, e.mountedAt, openTree, do)
		<-ended
		return err
	}
	sum := sha256.Sum256([]byte(pvName))
	return e.runMounted(ctx, path.Join(e.own, hex.EncodeToString(sum[:16])), do)
}

// unmountWithin limits unmounting after the end of the context.
const unmountWithin = 30 * time.Second

// runMounted calls do while the export is mounted at dir, where a killed process may have left a
// mount. If ctx ends while do waits for the server, unmounting by the mounter's policy
// interrupts do.
func (e *exportAccess) runMounted(ctx context.Context, dir string, do func(context.Context, *exportTree) error) (err error) {
	unmounter := &unmounter{podVolume{plugin: e.plugin, path: dir}}
	if err := unmounter.TearDown(ctx); err != nil {
		return volume.AsTransient(err)
	}
	mounter, err := e.plugin.NewMounter(e.spec, accessPod("export"))
	if err != nil {
		return err
	}
	if err := mounter.SetUpAt(ctx, dir, volume.MounterArgs{}); err != nil {
		return fmt.Errorf("mount the export: %w", volume.AsTransient(err))
	}
	ended, err := runAt(ctx, dir, openMountedTree, do)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unmountWithin)
	defer cancel()
	if left := unmounter.TearDown(ctx); left != nil {
		err = errors.Join(err, volume.AsUncertain(left))
	}
	<-ended
	return err
}

// runAt calls do with the export that is mounted at dir, and returns soon after ctx ends. The
// channel is closed when do has ended.
func runAt(ctx context.Context, dir string, open func(context.Context, string) (*exportTree, error), do func(context.Context, *exportTree) error) (<-chan struct{}, error) {
	ended := make(chan struct{})
	_, err := ctxend.Await(ctx, ctxend.Kernel, func() (struct{}, error) {
		defer close(ended)
		tree, err := open(ctx, dir)
		if err != nil {
			return struct{}{}, volume.AsTransient(err)
		}
		defer tree.close()
		return struct{}{}, do(ctx, tree)
	}, nil)
	if err != nil && ctx.Err() != nil {
		err = volume.AsUncertain(err)
	}
	return ended, err
}
