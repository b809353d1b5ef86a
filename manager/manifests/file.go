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

// A file is what was read of one.
type file struct {
	info fs.FileInfo // when it was read
	// fresh: it was written so shortly before that a later change may not show.
	fresh     bool
	sum       [sha256.Size]byte
	documents []document // the last good ones
	gone      time.Time  // when it was found missing; zero: it is there
	problem   *Problem   // of what it holds now
	// lost: nothing was in order in this run, and what an earlier one kept cannot be
	// read. Nil: that is not so.
	lost *Problem
}

// maxFile is how large a file may be, maxFiles how many there may be.
const (
	maxFile  = 4 << 20
	maxFiles = 20_000
)

// freshness is how long after a change another one may bear the same time.
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
	return f.info != nil && !f.fresh && os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime())
}

var (
	errTooLarge   = fmt.Errorf("a file has at most %d bytes", maxFile)
	errNotRegular = errors.New("not a regular file")
)

// readFile reads one that is no larger than it may be. It does not wait for the other
// end of a pipe.
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

// update returns what is known of the file now, given what was known before. Wait is
// not 0 if it is too early to tell.
func (f file) update(dir, name string, settle time.Duration, k keep) (next file, wait time.Duration) {
	info, err := os.Stat(filepath.Join(dir, name))
	f.gone = time.Time{}
	if err == nil && f.isSame(info) {
		return f.orFound(name, k), 0
	}
	if err == nil {
		if age := time.Since(info.ModTime()); age >= 0 && age < settle {
			return f.orKept(name, k), settle - age
		}
	}
	var text []byte
	if err == nil {
		text, info, err = readFile(filepath.Join(dir, name))
	}
	next = f
	next.info, next.fresh = info, info != nil && time.Since(info.ModTime()) < freshness
	if err != nil {
		next.sum = [sha256.Size]byte{}
		return next.orKept(name, k).broken(Problem{File: name, Err: err}), 0
	}
	sum := sha256.Sum256(text)
	if sum == f.sum {
		return next.orFound(name, k), 0
	}
	next.sum = sum
	return next.take(name, text, k), 0
}

// missing returns what is known of a file that is missing, and for how long yet it
// counts.
func (f file) missing(settle time.Duration) (next file, wait time.Duration) {
	if f.gone.IsZero() {
		f.gone = time.Now()
	}
	return f, settle - time.Since(f.gone)
}

// take replaces the documents, unless the new ones are not in order.
func (f file) take(name string, text []byte, k keep) file {
	documents, err := parse(name, text)
	if err != nil {
		var problem Problem
		_ = errors.As(err, &problem) // parse returns no other error
		return f.orKept(name, k).broken(problem)
	}
	f.documents, f.problem, f.lost = documents, nil, nil
	if err := k.write(name, text); err != nil {
		f.problem = &Problem{File: name, Err: fmt.Errorf("it is in order, and cannot be kept for when it is not: %w", err)}
	}
	return f
}

func (f file) broken(p Problem) file {
	f.problem = &p
	return f
}

// orKept adds what an earlier run has kept, if nothing was in order in this one.
func (f file) orKept(name string, k keep) file {
	if f.documents != nil {
		return f
	}
	f.lost = nil
	text, err := k.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f
	}
	if err == nil {
		f.documents, err = parse(name, text)
	}
	if err != nil {
		f.lost = &Problem{File: name, Err: fmt.Errorf("what it held when it was last in order, %s, cannot be read: %w", k.path(name), err)}
	}
	return f
}

// orFound looks again for what was lost.
func (f file) orFound(name string, k keep) file {
	if f.lost == nil {
		return f
	}
	return f.orKept(name, k)
}
