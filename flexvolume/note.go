package flexvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/util"
)

// A note is beside the directory of a volume that this package has mounted, or was about to.
type note struct {
	// Changing: a call that mounts or unmounts is in flight, or was interrupted: the volume may be set up in part.
	Changing bool   `json:"changing,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"` // the specification is
	Secret   bool   `json:"secret,omitempty"`   // the driver has received one
	Boot     string `json:"boot,omitempty"`     // the start of the system
}

// readNote returns the note of a directory; false if there is none, or one of an earlier start of the system, whose
// mounts are gone.
func (p *Plugin) readNote(ctx context.Context, dir string) (n note, ok bool, err error) {
	text, err := p.notes.Read(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errors.ErrUnsupported):
		return note{}, false, nil
	case err != nil:
		return note{}, false, util.Transient(fmt.Errorf("read the note of the volume: %w", err))
	case json.Unmarshal(text, &n) != nil, bootid.IsEarlier(n.Boot, p.boot):
		return note{}, false, nil
	}
	return n, true, nil
}

// writeNote writes the note, where notes are possible.
func (p *Plugin) writeNote(ctx context.Context, dir string, n note) error {
	n.Boot = p.boot
	text, err := json.Marshal(n)
	if err == nil {
		err = p.notes.Write(ctx, dir, text)
	}
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return util.Transient(fmt.Errorf("write the note of the volume: %w", err))
}

func (p *Plugin) removeNote(ctx context.Context, dir string) error {
	if err := p.notes.Remove(ctx, dir); err != nil {
		return util.Transient(fmt.Errorf("remove the note of the volume: %w", err))
	}
	return nil
}
