package neverstuck

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/flexvolume"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A rig is the node of one row.
type rig struct {
	*testing.T
	hangs       string
	root, disks string // one of the two hangs
	hung        string // a directory in the hung file system
	mounter     *mount.Mounter
	host        *volume.Host
	mgr         *volume.VolumePluginMgr
	local       *local.Plugin
	getter      *content.MapGetter
	recycler    *recycler.Local
}

func newRig(t *testing.T, b *bench) *rig {
	calm, err := os.MkdirTemp(b.dir, "calm-")
	require.NoError(t, err)
	hung, err := os.MkdirTemp(filepath.Join(b.dir, "hung"), "row-")
	require.NoError(t, err)
	r := &rig{T: t, hangs: b.hangs, root: calm + "/root", disks: hung + "/disks", hung: hung + "/disks"}
	if b.hangs == hungRoot {
		r.root, r.disks, r.hung = hung+"/root", calm+"/disks", hung+"/root"
	}
	for _, dir := range []string{r.root, r.disks + "/disk/sub", r.root + "/target", r.hung + "/empty"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(r.disks+"/disk/file", []byte("content"), 0o600))
	r.mounter = mount.New(mount.Config{})
	t.Cleanup(func() { _ = r.mounter.Close() })
	r.host, err = volume.NewHost(t.Context(), r.root)
	require.NoError(t, err)
	r.plugins()
	return r
}

func (r *rig) plugins() {
	r.getter = &content.MapGetter{}
	r.getter.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "config"}, Data: map[string]string{"a": "b"}})
	written := r.getter.Config()
	written.Mounter = r.mounter
	r.local = local.New(local.Config{Mounter: r.mounter, Roots: []string{r.disks}})
	var err error
	r.recycler, err = recycler.NewLocal(recycler.LocalConfig{
		Host: r.host, Plugin: func(spec *volume.Spec) (volume.VolumePlugin, error) { return r.mgr.FindPluginBySpec(spec) },
	})
	require.NoError(r, err)
	r.mgr, err = volume.NewVolumePluginMgr(r.Context(), r.host, r.local,
		hostpath.New(hostpath.Config{Mounter: r.mounter, Roots: []string{r.disks}, RecycleRoots: []string{r.disks}, Recycler: r.recycler}),
		emptydir.New(emptydir.Config{Mounter: r.mounter}),
		content.NewConfigMap(written),
		nfs.New(nfs.Config{Mounter: r.mounter, Recycler: r.recycler}), flexvolume.New(r.flexConfig()))
	require.NoError(r, err)
}

// resolveAll makes the kernel cache all names.
func (r *rig) resolveAll() {
	require.NoError(r, filepath.WalkDir(filepath.Dir(r.hung), func(p string, entry fs.DirEntry, err error) error {
		if err == nil {
			_, err = os.Lstat(p)
		}
		return err
	}))
}

func (r *rig) pod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"}}
}

// specs returns a volume of each plugin, by its package.
func (r *rig) specs() map[string]*volume.Spec {
	return map[string]*volume.Spec{
		"local":      localSpec(r.disks + "/disk"),
		"hostpath":   volumeSpec(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: r.disks + "/disk"}}),
		"emptydir":   volumeSpec(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
		"content":    volumeSpec(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "config"}}}),
		"flexvolume": volumeSpec(v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: flexDriver}}),
		"nfs":        volumeSpec(v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "127.0.0.1", Path: "/export"}}),
	}
}

func volumeSpec(source v1.VolumeSource) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{Name: "vol", VolumeSource: source})
}

func localSpec(path string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "vol"},
		Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}},
	}, false)
}

// blockSpec returns the specification of a block device at a path.
func blockSpec(path string) *volume.Spec {
	spec := localSpec(path)
	block := v1.PersistentVolumeBlock
	spec.PersistentVolume.Spec.VolumeMode = &block
	return spec
}

// up sets a volume up before the file system hangs, unless the file system hangs from the
// start. It does not set up a volume of NFS, which would need a server.
func (r *rig) up(plugin string) volume.Mounter {
	spec := r.specs()[plugin]
	p, err := r.mgr.FindPluginBySpec(spec)
	require.NoError(r, err)
	mounter, err := p.NewMounter(spec, r.pod())
	require.NoError(r, err)
	if r.hangs != hungSource && plugin != "nfs" {
		require.NoError(r, mounter.SetUp(r.Context(), volume.MounterArgs{}))
	}
	return mounter
}

// target returns a mount point below the root, at the path of a volume.
func (r *rig) target() string {
	target := r.root + "/target"
	if r.hangs != hungSource {
		require.NoError(r, r.mounter.Mount(context.Background(), mount.Request{Source: r.disks + "/disk", Target: target}))
	}
	return target
}
