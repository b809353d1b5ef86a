package emptydir

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A podVolume is a volume's place for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics counts what is in a directory that is on disk, at most every ten seconds;
// capacity and what is free are those of the file system that it shares with others. Of
// one in memory it measures the file system.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.dirs.GetMetrics(ctx, v.path)
}

type mounter struct {
	podVolume
	source   v1.EmptyDirVolumeSource
	medium   medium
	memory   int64 // the most that it may be of tmpfs, 0 if nothing is said
	limit    int64 // that the specification has, 0 if none
	readOnly bool
}

// GetAttributes says that ownership is managed.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly, Managed: true, SELinuxRelabel: true}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]. The directory must be below the host's root.
// FsUser has no effect, as in Kubernetes: anybody may write to the volume.
// The size of a volume that is up already stays what it is.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	want, err := m.want(args)
	if err != nil {
		return err
	}
	return m.plugin.dirs.SetUp(ctx, dir, want)
}

// want is what the volume is to be.
func (m *mounter) want(args volume.MounterArgs) (util.PodDir, error) {
	asked, err := m.checkArgs(args)
	if err != nil {
		return util.PodDir{}, err
	}
	record, err := json.Marshal(m.record())
	want := util.PodDir{Mode: 0o777, Group: args.FsGroup, Record: record}
	if args.FsGroup != nil {
		want.Mode |= fs.ModeSetgid
	}
	want.Mount = m.request(asked)
	return want, err
}

// record is the source in the one way in which it is noted, however its limit is written.
func (m *mounter) record() v1.EmptyDirVolumeSource {
	source := m.source
	if source.SizeLimit != nil {
		source.SizeLimit = resource.NewQuantity(m.limit, resource.BinarySI)
	}
	return source
}

// checkArgs refuses what a pod asks for and would not get, and returns the size that
// it asks for.
func (m *mounter) checkArgs(args volume.MounterArgs) (size int64, err error) {
	switch {
	case args.SELinuxLabel != "":
		return 0, fmt.Errorf("MounterArgs.SELinuxLabel for an emptyDir: %w", volume.ErrNotSupported)
	case args.DesiredSize != nil && m.medium.fsType == "":
		return 0, fmt.Errorf("MounterArgs.DesiredSize for an emptyDir on disk: %w", volume.ErrNotSupported)
	}
	return bytesOf(field.NewPath("args", "desiredSize"), args.DesiredSize)
}

// request is the mount that the volume needs, if it needs one, for a pod that asks for
// a size.
func (m *mounter) request(asked int64) *mount.Request {
	const mode = "mode=0777"
	switch m.medium.fsType {
	case tmpfs:
		size := smallest(asked, m.memory)
		if size == 0 {
			size = m.plugin.config.MemorySize
		}
		return util.Tmpfs(mode, fmt.Sprintf("size=%d", size))
	case hugetlbfs:
		options := []string{mode, fmt.Sprintf("pagesize=%d", m.medium.page)}
		if size := smallest(asked, m.limit); size > 0 {
			options = append(options, fmt.Sprintf("size=%d", size))
		}
		return &mount.Request{Source: hugetlbfs, FSType: hugetlbfs, Options: options}
	}
	return nil
}

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter], but removes what is in the volume. The
// directory must be below the host's root. Its parents stay: they are the pod's. What
// is mounted in a volume on disk stays as well, as do the directories that lead there:
// the error wraps a [*scrub.UnremovableError], and the same call goes on once it is
// unmounted. A volume in memory with something mounted in it is busy.
// A directory in another place than GetPath that SetUpAt has not set up stays, unless it
// is empty.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.dirs.TearDown(ctx, dir)
}
