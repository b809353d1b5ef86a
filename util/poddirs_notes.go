package util

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/volumekit/volumekit/util/safepath"
	"k8s.io/apimachinery/pkg/types"
)

// A note is what is known of a volume that is up.
type note struct {
	Mounted bool            `json:"mounted,omitempty"`
	Group   *int64          `json:"group,omitempty"`
	Record  json.RawMessage `json:"record,omitempty"`
}

func noteOf(want PodDir) note {
	return note{Mounted: want.Mount != nil, Group: want.Group, Record: want.Record}
}

var (
	errOtherRecord = errors.New("the volume is up as something else")
	errOtherGroup  = errors.New("the volume is up for another group")
)

// differs returns what is up differently from what is wanted.
func (n note) differs(want PodDir) error {
	switch {
	case n.Mounted != (want.Mount != nil), !sameJSON(n.Record, want.Record):
		return errOtherRecord
	case !same(n.Group, want.Group):
		return errOtherGroup
	}
	return nil
}

// same reports whether what is wanted, if anything is, is what there is.
func same(is, want *int64) bool {
	return want == nil || is != nil && *is == *want
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes()) ||
		len(a) == 0 && len(b) == 0
}

// notes is where the note about a volume is: a file called as the kubelet calls its
// own, which is empty, in a directory that is there for nothing else.
type notes struct {
	root  string // of the host
	dir   string
	keep  string // the directory that holds it and is not to be removed
	inPod bool   // the volume is where the host has it
}

const (
	readyName = "ready"
	newName   = "ready.new" // what is being written
	mostNoted = 1 << 20     // bytes
)

// notesOf returns the notes about the volume at dir: in the directory that the plugin
// has for the pod, if dir is where the host has its volumes.
func (p *PodDirs) notesOf(dir string) (notes, error) {
	host := p.mounts.host
	root, base := path.Clean(host.Root()), path.Base(dir)
	for part := range strings.SplitSeq(strings.TrimPrefix(dir, root+"/"), "/") {
		at, err := host.PodVolumeDir(types.UID(part), p.plugin, base)
		if err != nil || path.Clean(at) != dir {
			continue
		}
		own, err := host.PodPluginDir(types.UID(part), p.plugin)
		return notes{root: root, dir: path.Join(own, base), keep: path.Dir(path.Dir(own)), inPod: true}, err
	}
	own, err := host.PluginDir(p.plugin)
	sum := sha256.Sum256([]byte(dir))
	return notes{root: root, dir: path.Join(own, readyName, hex.EncodeToString(sum[:16])), keep: own}, err
}

// errUnsound is wrapped by the error of reading what was not written to its end, or by
// somebody else.
var errUnsound = errors.New("not a note about a volume")

// known reports whether what is at the path is this plugin's, to empty: it is where
// nothing else is, or it has a directory for notes, which stays until it is gone.
func (n notes) known() (bool, error) {
	if n.inPod {
		return true, nil
	}
	info, err := os.Lstat(n.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// claim makes known what is about to be made.
func (n notes) claim() error {
	if n.inPod {
		return nil
	}
	_, err := safepath.MkdirAll(n.root, n.dir, 0o750)
	return err
}

// read returns an error that wraps fs.ErrNotExist if nothing is noted.
func (n notes) read() (note, error) {
	name := path.Join(n.dir, readyName)
	text, err := readNote(name, mostNoted)
	if err != nil {
		return note{}, fmt.Errorf("the note that the volume is ready: %w", err)
	}
	var read note
	if err := json.Unmarshal(text, &read); err != nil {
		return note{}, fmt.Errorf("%w: %s: %w", errUnsound, name, err)
	}
	return read, nil
}

func (n notes) write(what note) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if len(text) > mostNoted {
		return fmt.Errorf("%w: %s: %d bytes", errUnsound, n.dir, len(text))
	}
	if _, err := safepath.MkdirAll(n.root, n.dir, 0o750); err != nil {
		return err
	}
	return writeNote(path.Join(n.dir, newName), path.Join(n.dir, readyName), text)
}

// unready removes what may be left of a note that was not finished, and then the note:
// if that fails the volume is as ready as before.
func (n notes) unready() error {
	for _, name := range []string{newName, readyName} {
		if err := removeNote(path.Join(n.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// forget is unready, and removes the directory, as well as its parents if they are
// empty then.
func (n notes) forget() error {
	if err := n.unready(); err != nil {
		return err
	}
	return RemoveEmptyParents(n.keep, path.Join(n.dir, readyName))
}
