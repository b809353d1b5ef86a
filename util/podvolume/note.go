package podvolume

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// A note describes a volume that is up.
type note struct {
	Mounted bool            `json:"mounted,omitempty"`
	Group   *int64          `json:"group,omitempty"`
	Record  json.RawMessage `json:"record,omitempty"`
}

func noteOf(want Dir) note {
	return note{Mounted: want.Mount != nil, Group: want.Group, Record: want.Record}
}

var (
	errOtherRecord = errors.New("the volume is set up with another mount or record")
	errOtherGroup  = errors.New("the volume is set up for another group")
)

// differs returns an error that names the first difference of the volume to want.
func (n note) differs(want Dir) error {
	switch {
	case n.Mounted != (want.Mount != nil), !sameJSON(n.Record, want.Record):
		return errOtherRecord
	case !same(n.Group, want.Group):
		return errOtherGroup
	}
	return nil
}

// same reports whether an ID is the wanted one. A nil want accepts any.
func same(is, want *int64) bool {
	return want == nil || is != nil && *is == *want
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes()) ||
		len(a) == 0 && len(b) == 0
}

// notes is where the note about a volume is: an extended attribute of the directory that
// holds the volume's, where that is possible (see setMark), and otherwise a file called as
// the kubelet calls its own, which is empty, in a directory that is there for nothing else.
type notes struct {
	root   string // of the host
	volume string // the volume's directory
	dir    string
	keep   string // the directory that holds it and is not to be removed
	inPod  bool   // the volume is where the host has it
	pod    types.UID
	marks  bool // an attribute may be the note
	files  bool // a new note is a file
	// kubelet is the directory of the kubelet's note; empty if the kubelet has none.
	kubelet string
}

const (
	readyName = "ready"
	newName   = "ready.new" // an unfinished write
	mostNoted = 1 << 20     // bytes
)

// notesOf returns the notes about the volume at dir. A volume in the place that the host has for
// it is marked by an extended attribute of its directory, see notes.marks.
func (p *Dirs) notesOf(dir string) (notes, error) {
	n, err := notesOf(p.mounts.host, p.plugin, dir)
	n.marks, n.files = n.inPod, p.files
	if err == nil && n.inPod {
		n.kubelet, err = kubeletNoteDir(p.mounts.host, p.plugin, n)
	}
	return n, err
}

// notesOf returns the place of the notes about the volume at dir: the plugin's directory for the
// pod if the host has the volume's place at dir, and else a directory that is named for the hash
// of dir.
func notesOf(host volume.VolumeHost, plugin, dir string) (notes, error) {
	root, base := path.Clean(host.Root()), path.Base(dir)
	for part := range strings.SplitSeq(strings.TrimPrefix(dir, root+"/"), "/") {
		at, err := host.PodVolumeDir(types.UID(part), plugin, base)
		if err != nil || path.Clean(at) != dir {
			continue
		}
		own, err := host.PodPluginDir(types.UID(part), plugin)
		return notes{root: root, volume: dir, dir: path.Join(own, base), keep: path.Dir(path.Dir(own)), inPod: true, pod: types.UID(part)}, err
	}
	own, err := host.PluginDir(plugin)
	sum := sha256.Sum256([]byte(dir))
	return notes{root: root, volume: dir, dir: path.Join(own, readyName, hex.EncodeToString(sum[:16])), keep: own}, err
}

// errUnsound is wrapped by the error of reading an unfinished note, or a file of another
// program.
var errUnsound = errors.New("not a note about a volume")

// isVolume reports whether the directory at the path is this plugin's, to empty: it is in the
// place of the plugin's volumes, or it has a directory for notes, which outlives it.
func (n notes) isVolume() (bool, error) {
	if n.inPod {
		return true, nil
	}
	info, err := os.Lstat(n.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// recordOwnership records ownership before the directory is created.
func (n notes) recordOwnership() error {
	if n.inPod {
		return nil
	}
	_, err := safepath.MkdirAll(context.Background(), n.root, n.dir, 0o750)
	return err
}

// read returns the note of a volume. The error wraps fs.ErrNotExist if there is no note.
func (n notes) read() (note, error) {
	name, text, err := n.text()
	if err != nil {
		return note{}, fmt.Errorf("the record of the volume: %w", err)
	}
	var read note
	if err := json.Unmarshal(text, &read); err != nil {
		return note{}, fmt.Errorf("%w: %s: %w", errUnsound, name, err)
	}
	return read, nil
}

// text returns the note and the name of the file, or of the directory, that holds it.
func (n notes) text() (name string, text []byte, err error) {
	if n.marks {
		text, err = readMark(n.volume)
		if !errors.Is(err, fs.ErrNotExist) {
			return n.volume, text, err
		}
	}
	name = path.Join(n.dir, readyName)
	text, err = readNote(name, mostNoted)
	return name, text, err
}

// mark notes that the volume is ready. A process that dies leaves it ready or not. A loss of
// power may take the note, or tear a file: then the volume is not ready, and the next SetUp
// completes it again. So nothing is synced. parent is a descriptor of the directory that holds the
// volume's, or -1.
func (n notes) mark(what note, parent int) error {
	text, err := what.text()
	if err != nil {
		return err
	}
	if n.marks && !n.files && setMark(parent, n.volume, text) {
		return nil
	}
	return n.writeFile(text)
}

// addFile writes the note of a volume that has only an attribute to a file, if notes are files.
func (n notes) addFile(what note) error {
	if !n.files {
		return nil
	}
	_, err := os.Lstat(path.Join(n.dir, readyName))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return n.mark(what, -1)
}

// replace writes the note about a volume that is a mount, in the place of an earlier mark or file.
func (n notes) replace(what note) error {
	text, err := what.text()
	if err != nil {
		return err
	}
	if n.marks && setMark(-1, n.volume, text) {
		if err := removeNotes(n.dir, newName, readyName); err != nil {
			return err
		}
		return n.removeDirs()
	}
	if err := n.writeFile(text); err != nil || !n.marks {
		return err
	}
	return removeMark(n.volume)
}

func (what note) text() ([]byte, error) {
	text, err := json.Marshal(what)
	if err == nil && len(text) > mostNoted {
		err = fmt.Errorf("%w: %d bytes", errUnsound, len(text))
	}
	return text, err
}

// A writtenNote is a file to write.
type writtenNote struct {
	temporary, name string // paths
	text            []byte
}

// writeFile writes the note as a file, and creates the directory for it.
func (n notes) writeFile(text []byte) error {
	if _, err := safepath.MkdirAll(context.Background(), n.root, n.dir, 0o750); err != nil {
		return err
	}
	return writeNote(writtenNote{temporary: path.Join(n.dir, newName), name: path.Join(n.dir, readyName), text: text})
}

// removeNote removes an unfinished note, and then the note: if that fails the volume is as
// ready as before.
func (n notes) removeNote() error {
	return n.removeNoteBy(func() error { return removeMark(n.volume) })
}

// removeNoteBy is removeNote with a function that removes the mark.
func (n notes) removeNoteBy(removeMark func() error) error {
	if err := removeNotes(n.dir, newName, readyName); err != nil || !n.marks {
		return err
	}
	return removeMark()
}

// removeNoteAndDirs calls removeNote and removeDirs.
func (n notes) removeNoteAndDirs() error {
	if err := n.removeNote(); err != nil {
		return err
	}
	return n.removeDirs()
}

// removeDirs removes the directory of the note, and its parents, as far as they are empty. It
// also removes the kubelet's note.
func (n notes) removeDirs() error {
	top, _, _ := strings.Cut(strings.TrimPrefix(n.dir, n.keep+"/"), "/")
	if _, err := os.Lstat(path.Join(n.keep, top)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := n.removeEmpty(n.dir)
	if n.kubelet == "" || n.kubelet == n.dir || err != nil {
		return err
	}
	if err := removeNotes(n.kubelet, readyName); err != nil {
		return err
	}
	return n.removeEmpty(n.kubelet)
}

// removeEmpty removes the directory of a note, and its parents, as far as they are empty.
func (n notes) removeEmpty(dir string) error {
	return util.RemoveEmptyParents(context.Background(), n.keep, path.Join(dir, readyName))
}
