package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	deep     = 100 // nested directories
	precious = "not the volume's"
)

// A base is the program's own directory.
type base string

func (b base) root() string    { return filepath.Join(string(b), "root") } // the host's
func (b base) disks() string   { return filepath.Join(string(b), "disks") }
func (b base) volume() string  { return filepath.Join(b.disks(), "pv-a") }
func (b base) outside() string { return filepath.Join(string(b), "outside") }
func (b base) canary() string  { return filepath.Join(b.outside(), "canary") }

func (b base) spec() *volume.Spec {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a"}}
	pv.Spec.Local = &v1.LocalVolumeSource{Path: b.volume()}
	return volume.NewSpecFromPersistentVolume(pv, false)
}

// fill makes the directories, and fills the volume as a pod might.
func (b base) fill(files int) error {
	bottom := filepath.Join(b.volume(), strings.Repeat("d/", deep))
	for _, dir := range []string{b.root(), b.outside(), bottom, filepath.Join(b.volume(), "files")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for i := range files {
		name := filepath.Join(b.volume(), "files", fmt.Sprint(i))
		if err := os.WriteFile(name, []byte("of the last claim"), 0o600); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(b.canary(), []byte(precious), 0o600),
		os.Link(b.canary(), filepath.Join(b.volume(), "hard-link")),
		os.Symlink(b.outside(), filepath.Join(b.volume(), "link")),
	)
}

// names counts the names in the volume.
func (b base) names() (n int, err error) {
	err = filepath.WalkDir(b.volume(), func(_ string, _ fs.DirEntry, err error) error {
		n++
		return err
	})
	return n - 1, err // without the volume itself
}
