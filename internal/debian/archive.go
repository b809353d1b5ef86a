// Package debian unpacks packages of Debian's releases into directories. It needs a machine
// with Debian's tools and no root, and installs nothing.
package debian

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/command"
	"github.com/volumekit/volumekit/util/progress"
)

const (
	// keyring holds the keys that sign Debian's releases.
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	// mirror is the default mirror.
	mirror = "http://deb.debian.org/debian/"
)

// An Archive is one release of Debian for apt-get, with lists and a cache of its own,
// independent of the machine's packages and configuration.
type Archive struct {
	dir     string
	options []string
}

// Open downloads the list of a release's packages, for example of bookworm, into dir, which
// exists and which the caller removes.
func Open(ctx context.Context, dir, suite string) (*Archive, error) {
	for _, tool := range []string{"apt-get", "dpkg", "xz"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("requires Debian's tools: %w", err)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		return nil, fmt.Errorf("requires the package debian-archive-keyring: %w", err)
	}
	for _, sub := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	sources := filepath.Join(dir, "sources.list")
	line := fmt.Sprintf("deb [arch=amd64 signed-by=%s] %s %s main\n", keyring, machineMirror(ctx), suite)
	if err := os.WriteFile(sources, []byte(line), 0o644); err != nil {
		return nil, err
	}
	a := &Archive{dir: dir, options: aptOptions(dir, sources)}
	defer a.beginDownload(ctx, "list of packages of "+suite)()
	_, err := command.Output(a.apt(ctx, "update"))
	return a, err
}

func aptOptions(dir, sources string) []string {
	return []string{
		"-qq",
		"-oDir::Etc::sourcelist=" + sources,
		"-oDir::Etc::sourceparts=/dev/null",
		"-oDir::State::Lists=" + filepath.Join(dir, "lists"),
		"-oDir::Cache=" + dir,
		"-oAcquire::Languages=none",
		"-oAcquire::Retries=3",
		"-oAcquire::http::Timeout=30",
		"-oAPT::Sandbox::User=root", // another user may not enter our directory
		"-oAPT::Update::Error-Mode=any",
		"-oDebug::NoLocking=1",
	}
}

func (a *Archive) apt(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "apt-get", append(a.options, args...)...)
	cmd.Dir = a.dir
	return cmd
}

// Unpack downloads packages, whose signatures apt-get checks, and unpacks them into dir.
func (a *Archive) Unpack(ctx context.Context, dir string, packages ...string) error {
	end := a.beginDownload(ctx, strings.Join(packages, " "))
	_, err := command.Output(a.apt(ctx, append([]string{"download"}, packages...)...))
	end()
	if err != nil {
		return err
	}
	for _, name := range packages {
		file, err := findPackage(a.dir, name)
		if err != nil {
			return err
		}
		if _, err := command.Output(exec.CommandContext(ctx, "dpkg", "-x", file, dir)); err != nil {
			return err
		}
	}
	return nil
}

// beginDownload begins a step of package progress, which measures the growth of the downloaded files.
func (a *Archive) beginDownload(ctx context.Context, what string) (end func()) {
	before := sizeOf(a.dir)
	return progress.Begin(ctx, progress.Step{
		Name: progress.Download, Object: what, Unit: progress.Bytes,
		Count: func() (done, total int64) { return max(0, sizeOf(a.dir)-before), 0 },
	})
}

// sizeOf returns the size of the files in a directory in bytes, without those that vanish meanwhile, and without
// apt-get's index of them.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(entry.Name()) == ".bin" {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}

// findPackage returns the file of a downloaded package.
func findPackage(dir, name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", fmt.Errorf("package %s in %s: %w", name, dir, os.ErrNotExist)
	}
	return files[0], nil
}

// machineMirror returns the mirror of Debian that this machine uses.
func machineMirror(ctx context.Context) string {
	uris, _ := command.Output(exec.CommandContext(ctx, "apt-get", "indextargets",
		"--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian"))
	first, _, _ := strings.Cut(uris, "\n")
	return cmp.Or(first, mirror)
}
