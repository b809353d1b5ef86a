package manifests

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A file is the state of one manifest.
type file struct {
	info fs.FileInfo // at the last read
	// isFresh says that the file was read so soon after a change that a later change may leave info as
	// it is.
	isFresh      bool
	sum          [sha256.Size]byte
	documents    []Document // the last valid ones
	missingSince time.Time  // zero: the file exists
	problem      *Problem   // of the present content
	// lostCopy is the problem of an unreadable copy of an earlier run, if this run has read no valid
	// content. Nil otherwise.
	lostCopy *Problem
}

// maxFile limits the size of a file, maxFiles their number.
const (
	maxFile  = 4 << 20
	maxFiles = 20_000
)

// freshness is the time within which two changes may have the same modification time.
const freshness = 2 * time.Second

func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(name, ".")
	}
	return false
}

// isSame reports whether the file has not changed since it was read.
func (f file) isSame(info fs.FileInfo) bool {
	return f.info != nil && !f.isFresh && os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime())
}

var (
	errTooLarge   = fmt.Errorf("a file must have at most %d bytes", maxFile)
	errNotRegular = errors.New("not a regular file")
)

// readFile reads a regular file of at most maxFile bytes. It does not block on a pipe.
func readFile(name string) (text []byte, info fs.FileInfo, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, info, errNotRegular
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errTooLarge
	}
	return text, info, err
}

// update returns the new state of the file. It returns wait > 0 if the file was written so
// recently that it is read later.
func (f file) update(dir, name string, settle time.Duration, k copyStore) (next file, wait time.Duration) {
	info, err := os.Stat(filepath.Join(dir, name))
	f.missingSince = time.Time{}
	if err == nil && f.isSame(info) {
		return f.retryCopy(name, k), 0
	}
	if err == nil {
		if age := time.Since(info.ModTime()); age >= 0 && age < settle {
			return f.withCopy(name, k), settle - age
		}
	}
	var text []byte
	if err == nil {
		text, info, err = readFile(filepath.Join(dir, name))
	}
	next = f
	next.info, next.isFresh = info, info != nil && time.Since(info.ModTime()) < freshness
	if err != nil {
		next.sum = [sha256.Size]byte{}
		return next.withCopy(name, k).withProblem(Problem{File: name, Err: err}), 0
	}
	sum := sha256.Sum256(text)
	if sum == f.sum {
		return next.retryCopy(name, k), 0
	}
	next.sum = sum
	return next.parseContent(name, text, k), 0
}

// markMissing returns the new state of a missing file, and the time for which the file still
// counts.
func (f file) markMissing(settle time.Duration) (next file, wait time.Duration) {
	if f.missingSince.IsZero() {
		f.missingSince = time.Now()
	}
	return f, settle - time.Since(f.missingSince)
}

// parseContent replaces the documents by those of text, unless text is invalid.
func (f file) parseContent(name string, text []byte, k copyStore) file {
	documents, err := parse(name, text)
	if err != nil {
		var problem Problem
		_ = errors.As(err, &problem) // parse returns no other type
		return f.withCopy(name, k).withProblem(problem)
	}
	f.documents, f.problem, f.lostCopy = documents, nil, nil
	if err := k.write(name, text); err != nil {
		f.problem = &Problem{File: name, Err: fmt.Errorf("store the valid content in Config.Keep: %w", err)}
	}
	return f
}

func (f file) withProblem(p Problem) file {
	f.problem = &p
	return f
}

// withCopy adds the copy of an earlier run, if this run has read no valid content.
func (f file) withCopy(name string, k copyStore) file {
	if f.documents != nil {
		return f
	}
	f.lostCopy = nil
	text, err := k.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	if err == nil {
		f.documents, err = parse(name, text)
	}
	if err != nil {
		f.lostCopy = &Problem{File: name, Err: fmt.Errorf("read the last valid content %s: %w", k.path(name), err)}
	}
	return f
}

// retryCopy reads a lost copy again.
func (f file) retryCopy(name string, k copyStore) file {
	if f.lostCopy == nil {
		return f
	}
	return f.withCopy(name, k)
}
