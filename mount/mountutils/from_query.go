package mountutils

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
)

func (f *Peer) isMountPoint(p string) (bool, error) {
	at, err := withoutLinks(p)
	if err != nil || at == "" {
		return false, err
	}
	if p == "/" {
		return true, nil
	}
	return f.peer.IsMountPoint(at)
}

func (f *Peer) mountRefs(p string) ([]string, error) {
	at, err := withoutLinks(p)
	if err != nil || at == "" {
		return nil, err
	}
	refs, err := f.peer.GetMountRefs(at)
	if err != nil {
		return nil, err
	}
	refs = slices.DeleteFunc(slices.Clone(refs), func(ref string) bool { return ref == at })
	slices.Sort(refs)
	return slices.Compact(refs), nil
}

func (f *Peer) resolve(p string) (mount.Place, error) {
	dir, err := followLinks(path.Dir(p))
	if err != nil {
		return mount.Place{}, err
	}
	where := filepath.Join(dir, path.Base(p))
	if _, err := isLink(where); err != nil {
		return mount.Place{}, err
	}
	table, err := f.table()
	if err != nil {
		return mount.Place{}, err
	}
	in, ok := table.Containing(where)
	if !ok {
		return mount.Place{}, fmt.Errorf("%q: no listed mount contains the path: %w", where, fs.ErrNotExist)
	}
	return mount.Place{Mount: in, Path: path.Join("/", strings.TrimPrefix(where, in.Mountpoint))}, nil
}

func (f *Peer) mountsFrom(source string) ([]mount.Info, error) {
	table, err := f.table()
	if err != nil {
		return nil, err
	}
	device := source
	if filepath.IsAbs(source) {
		if device, err = followLinks(source); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(table, func(info mount.Info) bool {
		return info.Source != source && info.Source != device
	}), nil
}

// withoutLinks returns the path without symbolic links, or "" if it is a symbolic link itself,
// which the peer would follow.
func withoutLinks(p string) (string, error) {
	dir, err := followLinks(path.Dir(p))
	if err != nil {
		return "", err
	}
	at := filepath.Join(dir, path.Base(p))
	link, err := isLink(at)
	if err != nil || link {
		return "", err
	}
	return at, nil
}
