package main

import (
	"context"
	"embed"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/util/scrub"
)

//go:embed demo/*.yaml
var demoFiles embed.FS

// A demo is a temporary directory with manifests, a disk, and the volumes, all of its own.
type demo struct{ dir string }

func (d demo) manifests() string { return filepath.Join(d.dir, "manifests") }
func (d demo) disks() string     { return filepath.Join(d.dir, "disks") }

func newDemo() (demo, error) {
	dir, err := os.MkdirTemp("", "fileagent-")
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

// work runs the agent, and removes the manifests in the end, so that the agent takes down
// all volumes.
func (d demo) work(ctx context.Context, o options, stdout io.Writer) error {
	o.manifests, o.root, o.disks = d.manifests(), filepath.Join(d.dir, "root"), cli.Paths{d.disks()}
	a, err := newAgent(ctx, o, stdout)
	if err != nil {
		return err
	}
	a.hints = []string{"The manifests are yours to edit. An interrupt ends it, and removes all."}
	leave := func(running context.Context) error {
		running, cancel := context.WithTimeout(running, o.timeout)
		defer cancel()
		err := a.showMounts()
		if err != nil && errors.Is(err, context.Cause(ctx)) {
			err = nil // the output failed before, and the agent has reported it
		}
		if failed := d.removeManifests(); failed != nil {
			return errors.Join(err, failed)
		}
		return errors.Join(err, a.manager.WaitForAllPodsUnmount(running))
	}
	return errors.Join(a.runLocked(ctx, leave), a.close())
}

func (d demo) removeManifests() error {
	entries, err := os.ReadDir(d.manifests())
	for _, entry := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(d.manifests(), entry.Name())))
	}
	return err
}

// remove removes the demonstration's directory. If something is still mounted there it
// stays.
func (d demo) remove() error {
	root, err := scrub.Open(context.Background(), d.dir)
	if err != nil {
		return err
	}
	_, err = root.Empty(context.Background(), scrub.Options{})
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	return os.Remove(d.dir)
}
