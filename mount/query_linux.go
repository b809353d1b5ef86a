package mount

import (
	"context"

	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/table"
)

// queries returns the questions to the mount table.
func (m *Mounter) queries() table.Queries { return table.Queries{Paths: &m.resolver, Cache: &m.cache} }

func (m *Mounter) list(ctx context.Context) ([]Info, error) { return mountinfo.ReadAs(ctx, infoOf) }

func (m *Mounter) mountRefs(ctx context.Context, p string) ([]string, error) {
	return m.queries().References(ctx, p)
}

func (m *Mounter) resolve(ctx context.Context, p string) (Place, error) {
	in, inside, err := m.queries().Resolve(ctx, p)
	if err != nil {
		return Place{}, err
	}
	return Place{Mount: infoOf(in), Path: inside}, nil
}

func (m *Mounter) mountsFrom(ctx context.Context, source string) ([]Info, error) {
	entries, err := m.queries().MountsFrom(ctx, source)
	var infos []Info
	for _, e := range entries {
		infos = append(infos, infoOf(e))
	}
	return infos, err
}

func (m *Mounter) isMountPoint(ctx context.Context, p string) (bool, error) {
	return m.resolver.IsMountPoint(ctx, p)
}

func (m *Mounter) mountID(ctx context.Context, p string) (uint64, error) {
	return m.resolver.MountIDAt(ctx, p)
}

func (m *Mounter) followLinks(ctx context.Context, p string) (string, error) {
	return m.resolver.Resolve(ctx, p)
}

func (m *Mounter) watch(ctx context.Context, changed func()) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	return table.Watch(ctx, changed)
}

func (m *Mounter) watchMounts(ctx context.Context, changed func(TableChange)) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	return table.WatchMounts(ctx, func(mounts []table.Placement, all bool) {
		change := TableChange{Everything: all}
		for _, mount := range mounts {
			change.Mounts = append(change.Mounts, MountChange(mount))
		}
		changed(change)
	})
}

// infoOf returns an entry of the mount table as an Info.
func infoOf(e mountinfo.Entry) Info {
	return Info{
		ID: e.ID, Parent: e.Parent,
		Major: e.Major, Minor: e.Minor,
		Root: e.Root, Deleted: e.Deleted,
		Mountpoint:   e.Mountpoint,
		Flags:        Flags(e.Flags),
		Options:      e.Options,
		Tags:         e.Tags,
		FSType:       e.FSType,
		Source:       e.Source,
		SuperOptions: e.SuperOptions,
	}
}
