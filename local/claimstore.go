package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
)

// The directory of a claim root with the records of its directories, and the files that are being written,
// below it. Names of volumes do not begin with a dot.
const (
	claimRecordsDir      = ".volumekit/claims"
	temporaryClaimRecord = "../claims.new/*"
)

// A claimRecord says that a directory was made by the provisioner. It is written before the directory is
// created, and removed after it is deleted.
type claimRecord struct {
	// State: see the constants. An unknown one is an error.
	State string `json:"state"`
	Bytes int64  `json:"bytes"`
	Mode  uint32 `json:"mode"`
	// Project is the project of the directory; 0: it has no quota, for the reason Lack.
	Project uint32 `json:"project,omitempty"`
	Lack    string `json:"lack,omitempty"`
}

// The states of a claimRecord: while the directory is made, it contains nothing.
const (
	claimMaking   = "making"
	claimReady    = "ready"
	claimDeleting = "deleting"
)

// A claimStore has the directories of one claim root, and their records.
type claimStore struct {
	root   root
	locks  keylock.Map // of names: one call for each directory
	making keylock.Map // of the root: the choice of projects
}

func (s *claimStore) dir(name string) string { return path.Join(s.root.resolved, name) }

// pathOf returns the path of a directory as volumes have it.
func (s *claimStore) pathOf(name string) string { return path.Join(s.root.declared, name) }

// exclusively runs work for a directory without another call for it. If ctx ends first, work goes on,
// and the error is uncertain; if work has not begun, the error is transient.
func (s *claimStore) exclusively(ctx context.Context, name string, work func() error) error {
	_, began, err := keylock.Await(ctx, s.locks.Key(name), ctxend.Kernel, func() (struct{}, error) { return struct{}{}, work() }, nil)
	switch {
	case err == nil:
		return nil
	case !began:
		return volume.AsTransient(err)
	case ctx.Err() != nil && volume.KindOf(err) != volume.Final:
		return volume.AsUncertain(err)
	}
	return err
}

// files returns the directory of the records.
func (s *claimStore) files() recordstore.Dir {
	return newRecordFiles(s.root.resolved, claimRecordsDir, temporaryClaimRecord)
}

// read returns the record of a directory, or nil if none exists. An unreadable record is an error.
func (s *claimStore) read(name string) (rec *claimRecord, err error) {
	text, err := s.files().Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		rec, err = parseClaimRecord(text)
	}
	if err != nil {
		return nil, &RecordError{File: path.Join(s.root.resolved, claimRecordsDir, name), Err: err}
	}
	return rec, nil
}

func parseClaimRecord(text []byte) (*claimRecord, error) {
	rec := new(claimRecord)
	if err := json.Unmarshal(text, rec); err != nil {
		return nil, err
	}
	switch rec.State {
	case claimMaking, claimReady, claimDeleting:
		return rec, nil
	}
	return nil, fmt.Errorf("state %s: unknown", input.Quote(rec.State))
}

// write replaces the record of a directory atomically and durably.
func (s *claimStore) write(name string, rec claimRecord) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return s.files().Write(name, text)
}

// forget removes the record of a directory. It is idempotent.
func (s *claimStore) forget(name string) error { return s.files().Remove(name) }

// exists reports whether an entry of that name exists in the root.
func (s *claimStore) exists(name string) (bool, error) {
	err := recordstore.Within(s.root.resolved, func(root *os.Root) error {
		_, err := root.Lstat(name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
