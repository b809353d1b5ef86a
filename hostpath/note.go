package hostpath

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/util"
)

// A linkNote records the path of a volume that leads through symbolic links: the mount table
// has the resolved path alone.
type linkNote struct {
	Path   string `json:"path"`   // as source.path
	Source string `json:"source"` // without symbolic links
}

func (p *Plugin) writeNote(ctx context.Context, dir string, n linkNote) error {
	record, err := json.Marshal(n)
	if err == nil {
		err = p.notes.Write(ctx, dir, record)
	}
	if err != nil {
		return fmt.Errorf("the record of the link %q: %w", n.Path, err)
	}
	return nil
}

// readNote returns an empty note if there is no readable one.
func (p *Plugin) readNote(ctx context.Context, dir string) (n linkNote, err error) {
	record, err := p.notes.Read(ctx, dir)
	if err == nil {
		err = json.Unmarshal(record, &n)
	}
	return n, err
}

// linkedTo returns the resolved path of the volume at set-up, if it is set up: the links may
// lead elsewhere by now, and the mount stays.
func (m *mounter) linkedTo(ctx context.Context, dir string) (string, error) {
	n, err := m.plugin.readNote(ctx, dir)
	if err != nil || n.Path != m.source.path {
		return "", nil
	}
	if _, ok := m.plugin.roots.Containing(n.Source); !ok {
		return "", nil
	}
	mounted, err := m.isMounted(ctx, dir)
	if err != nil || !mounted {
		return "", err
	}
	return n.Source, nil
}

func (m *mounter) isMounted(ctx context.Context, dir string) (bool, error) {
	mounted, err := m.plugin.config.Mounter.IsMountPoint(ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, util.Transient(err)
	}
	return mounted, nil
}

// writtenFor returns the path in the specification of a volume that is mounted from origin.
func (p *Plugin) writtenFor(origin string, n linkNote) (string, bool) {
	if n.Source == origin {
		for _, roots := range []interface {
			Written(string) (string, bool)
		}{p.roots, p.links} {
			if written, ok := roots.Written(n.Path); ok {
				return written, true
			}
		}
	}
	return p.roots.Written(origin)
}
