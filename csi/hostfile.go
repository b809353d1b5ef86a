package csi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/volumekit/volumekit/csi/internal/hostfile"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/util/safepath"
)

// hostFiles are the files of volumes below the host's root. The caller holds the lock of the volume's
// path.
type hostFiles struct{ hostfile.Files }

// newMode is the mode of new directories, before umask.
const newMode = 0o750

// errBrokenData is wrapped by the error of a file that exists and describes no volume.
var errBrokenData = errors.New("the file of the volume is broken")

// read returns the data in a file. The error wraps fs.ErrNotExist for a missing file, and
// errBrokenData for a broken one.
func (h hostFiles) read(name string) (voldata.Data, error) {
	text, err := h.Read(name, voldata.MaxSize+1)
	return parse(name, text, err)
}

// parse returns the data of a file that has been read.
func parse(name string, text []byte, err error) (voldata.Data, error) {
	var data voldata.Data
	switch {
	case err == nil:
		data, err = voldata.Parse(text)
	case !errors.Is(err, hostfile.ErrNotRegular):
		return data, err
	}
	if err != nil {
		return voldata.Data{}, fmt.Errorf("%w: %s: %w", errBrokenData, name, err)
	}
	return data, nil
}

// open is read for a file whose state is written next. The caller closes the file.
func (h hostFiles) open(name string) (voldata.Data, *hostfile.Open, error) {
	file, err := h.OpenFile(name, voldata.MaxSize+1)
	if err != nil {
		data, err := parse(name, nil, err)
		return data, nil, err
	}
	data, err := parse(name, file.Text(), nil)
	if err != nil {
		_ = file.Close()
		return data, nil, err
	}
	return data, file, nil
}

// create creates the file of a volume, with its directory, so that both survive a loss of power. It returns
// the topmost directory that it has created.
func (h hostFiles) create(name string, data voldata.Data) (made string, err error) {
	if made, err = mkdir(h.Root, path.Dir(name)); err != nil {
		return made, err
	}
	return made, h.writeDurably(name, data, made)
}

// writeDurably writes a file so that it survives a loss of power, with the directories above it that have
// been created, of which made is the topmost.
func (h hostFiles) writeDurably(name string, data voldata.Data, made string) error {
	text, err := textOf(name, data)
	if err != nil {
		return err
	}
	if dir := path.Dir(name); made == "" || !strings.HasPrefix(dir+"/", made+"/") {
		made = dir // an earlier call may have been interrupted after it had created the directory
	}
	return h.WriteDurably(name, text, made)
}

// writeState writes a file whose old content names the same volume. The state of a call is of use in the
// running system only: after a loss of power the old one may return. So a file in which nothing else
// changes is changed in place, without a sync.
func (h hostFiles) writeState(name string, old, data voldata.Data) error {
	before, err := textOf(name, old)
	if err != nil {
		return err
	}
	text, err := textOf(name, data)
	if err != nil || bytes.Equal(before, text) {
		return err
	}
	if done, err := h.Overwrite(name, before, text); done || err != nil {
		return err
	}
	return h.Write(name, text)
}

func textOf(name string, data voldata.Data) ([]byte, error) {
	text, err := data.Text()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// mkdir creates a directory with its parents, below one of the roots, and returns the topmost directory
// that it has created.
func mkdir(root, dir string) (made string, err error) {
	return safepath.MkdirAll(context.Background(), root, dir, newMode)
}

// revertDirs removes directories that mkdir has created.
func revertDirs(made, dir string) error {
	return ignoreMissing(safepath.RemoveMade(context.Background(), made, dir))
}

// rmdirs removes empty directories; missing ones are no error.
func rmdirs(dirs ...string) error {
	for _, dir := range dirs {
		if err := ignoreMissing(safepath.Rmdir(context.Background(), dir)); err != nil {
			return err
		}
	}
	return nil
}

// rmdirsIfEmpty is rmdirs for directories that may have other entries.
func rmdirsIfEmpty(dirs ...string) {
	for _, dir := range dirs {
		_ = safepath.Rmdir(context.Background(), dir)
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
