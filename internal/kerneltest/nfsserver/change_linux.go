package nfsserver

import (
	"errors"
	"fmt"
	"os"
)

// Export exports a directory, or changes its export: read-only from now on, for instance.
func (s *Server) Export(e Export) error {
	return s.change("export", e.Dir, func() error { return s.files.add(e) })
}

// Revoke ends an export, until Export is called. Clients that have it mounted get ESTALE as
// soon as they query the server, which they defer for cached data.
func (s *Server) Revoke(dir string) error {
	return s.change("revoke", dir, func() error { return s.files.remove(dir) })
}

// Replace removes an exported directory with its content, and exports a new one at its path,
// empty and otherwise equal. Clients that have the old one mounted get ESTALE, as after
// Revoke.
func (s *Server) Replace(dir string) error {
	return s.change("replace", dir, func() error {
		i := s.files.find(dir)
		if i < 0 || s.files.exports[i].revoked {
			return errors.New("it is not exported")
		}
		was := s.files.exports[i]
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(s.files.remove(dir), os.RemoveAll(dir), os.Mkdir(dir, info.Mode().Perm())); err != nil {
			return err
		}
		// The handle of an exported directory contains its number alone.
		s.files.exports[i].Dir = ""
		return s.files.add(was)
	})
}

// change changes the exports, and updates the kernel's caches if the server runs.
func (s *Server) change(what, dir string, change func() error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("NFS server: %s %s: %w", what, dir, err)
		}
	}()
	if err := change(); err != nil || s.tracking == nil {
		return err
	}
	if err := s.caches.end(); err != nil {
		return err
	}
	return s.site.do(func() (err error) {
		s.caches, err = fillCaches(s.files.inTree())
		return err
	})
}
