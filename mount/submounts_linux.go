package mount

import (
	"fmt"
	"os"
)

// checkSubmounts refuses a source that has mounts below it, unless the request
// says what to do with them.
func (m *Mounter) checkSubmounts(src *source, req Request) error {
	if req.Submounts != RefuseSubmounts || !src.id.dir {
		return nil
	}
	dir, err := os.Readlink(procFD(src.fd))
	if err != nil {
		return err
	}
	at, found, err := m.mountBelow(src.id.mount, dir)
	if err == nil && found {
		err = fmt.Errorf("%w: %s", ErrSubmounts, quote(at))
	}
	return err
}

// mountBelow returns a mount that is attached in the mount below dir, if any is.
func (m *Mounter) mountBelow(mount uint64, dir string) (at string, found bool, err error) {
	table, err := readTable()
	if err != nil {
		return "", false, err
	}
	for _, info := range table {
		if uint64(info.Parent) != mount || uint64(info.ID) == mount {
			continue
		}
		if _, ok := below(dir, info.Mountpoint); ok {
			return info.Mountpoint, true, nil
		}
	}
	return "", false, nil
}
