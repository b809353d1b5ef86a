package podvolume

import (
	"context"
	"encoding/json"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/intime"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Notes are records about volumes that are mounts in pods, for data that the mount table does not
// hold after a restart of the process. The note about a volume is an extended attribute of the
// parent of the volume's directory, or else a file: in the directory that the plugin has for the pod
// ([volume.VolumeHost], PodPluginDir), and elsewhere for a volume that is in no pod. No call
// waits for a disk: a loss of power may lose the note, and ends the mount that it is about.
//
// Paths of volumes must be strictly below the host's root; others are refused
// with a [*field.Error]. Methods for different volumes are safe for concurrent use.
//
// Methods return soon after ctx ends. If the file system does not answer, work may continue
// then, and the next call for the volume waits for its end.
type Notes struct {
	mounts *Mounts
	plugin string // its name
	calls  keylock.Map
}

// NewNotes returns the notes of a plugin about its mounts. It does nothing yet.
func NewNotes(mounts *Mounts, pluginName string) *Notes {
	return &Notes{mounts: mounts, plugin: pluginName}
}

// Write writes the note about the volume at dir, or replaces it: record is JSON, without secrets. A
// process that dies meanwhile leaves the old note or the new one.
func (p *Notes) Write(ctx context.Context, dir string, record json.RawMessage) error {
	return p.do(ctx, dir, func(n notes) error { return n.replace(note{Record: record}) })
}

// Read returns the record about the volume at dir. The error wraps fs.ErrNotExist if
// there is none.
func (p *Notes) Read(ctx context.Context, dir string) (json.RawMessage, error) {
	found := make(chan json.RawMessage, 1)
	err := p.do(ctx, dir, func(n notes) error {
		read, err := n.read()
		found <- read.Record
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-found, nil
}

// Remove removes the note about the volume at dir, and directories of notes that are empty then.
// A missing note is no error.
func (p *Notes) Remove(ctx context.Context, dir string) error {
	return p.do(ctx, dir, notes.removeNoteAndDirs)
}

// RemoveNoteFiles removes the files of a note from a directory, in which a [volume.VolumeHost] has them for
// a volume of a pod: <PodPluginDir>/<volume>. It is for volumes that have no directory any more, whose
// plugin was killed before it removed the note. Missing files are no error; the directory stays. It returns soon after
// ctx ends.
func RemoveNoteFiles(ctx context.Context, dir string) (err error) {
	defer brief.Shorten(&err)
	_, _, err = keylock.Await(ctx, removals.Key(dir), ctxend.Kernel, func() (struct{}, error) {
		return struct{}{}, removeNotes(dir, newName, readyName)
	}, nil)
	return err
}

// removals has the directories of the calls in flight: a file system that does not answer costs one for each.
var removals keylock.Map

// do runs work on the note, within the work of [Mounts.Exclusively] without a lock of its
// own.
func (p *Notes) do(ctx context.Context, dir string, work func(notes) error) error {
	if p == nil {
		return errNoHost
	}
	dir, err := p.mounts.Below(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	n, err := notesOf(p.mounts.host, p.plugin, dir)
	if err != nil {
		return err
	}
	n.marks = n.inPod
	if intime.IsInside(ctx) {
		return work(n)
	}
	return runExclusively(ctx, &p.calls, dir, volume.ErrUncertain, func(context.Context) error { return work(n) })
}
