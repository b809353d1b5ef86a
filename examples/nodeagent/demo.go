package main

import (
	"context"
	"embed"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/examples/internal/cli"
	"github.com/volumekit/volumekit/util/scrub"
)

//go:embed demo/*.yaml
var demoFiles embed.FS

// A demo is a temporary directory with manifests, a disk, and the volumes. All in it is
// ours.
type demo struct{ dir string }

func (d demo) manifests() string { return filepath.Join(d.dir, "manifests") }
func (d demo) disks() string     { return filepath.Join(d.dir, "disks") }

func newDemo() (demo, error) {
	dir, err := os.MkdirTemp("", "nodeagent-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return demo{}, err
	}
	d := demo{dir}
	if err := errors.Join(os.MkdirAll(filepath.Join(d.disks(), "pages"), 0o755), os.Mkdir(d.manifests(), 0o755), d.write()); err != nil {
		return demo{}, errors.Join(err, os.RemoveAll(dir))
	}
	return d, nil
}

func (d demo) write() error {
	entries, err := demoFiles.ReadDir("demo")
	for _, entry := range entries {
		text, failed := demoFiles.ReadFile("demo/" + entry.Name())
		filled := strings.ReplaceAll(string(text), "${DISKS}", filepath.ToSlash(d.disks()))
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(d.manifests(), entry.Name()), []byte(filled), 0o600))
	}
	return err
}

// work shows the agent at work, and in the end takes the manifests away, so that it
// takes all volumes down.
func (d demo) work(ctx context.Context, o options, stdout io.Writer) error {
	o.manifests, o.root, o.disks = d.manifests(), filepath.Join(d.dir, "root"), cli.Paths{d.disks()}
	a, err := newAgent(o, stdout)
	if err != nil {
		return err
	}
	a.hints = []string{"The manifests are yours to edit. An interrupt ends it, and removes all."}
	leave := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, o.timeout)
		defer cancel()
		err := a.showMounts() // nobody may be there any more to see them
		if failed := d.removeManifests(); failed != nil {
			return errors.Join(err, failed)
		}
		return errors.Join(err, a.manager.WaitForAllPodsUnmount(ctx))
	}
	return errors.Join(a.work(ctx, leave), a.close())
}

func (d demo) removeManifests() error {
	entries, err := os.ReadDir(d.manifests())
	for _, entry := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(d.manifests(), entry.Name())))
	}
	return err
}

// remove removes what the demonstration has made. Nothing is mounted there any more; if
// something is, it stays.
func (d demo) remove() error {
	root, err := scrub.Open(d.dir)
	if err != nil {
		return err
	}
	_, err = root.Empty(context.Background(), scrub.Options{})
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	return os.Remove(d.dir)
}
