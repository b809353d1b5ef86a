package kernels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// keyring holds the keys that Debian signs its releases with.
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	// mirror is where packages come from if the machine has no mirror of its own.
	mirror = "http://deb.debian.org/debian/"
)

// An archive is one release of Debian as apt-get sees it, with lists and cache of
// its own: what the machine has installed and configured plays no part.
type archive struct {
	dir     string
	options []string
}

// newArchive fetches the list of a release's packages into dir.
func newArchive(ctx context.Context, dir, suite string) (*archive, error) {
	for _, tool := range []string{"apt-get", "dpkg", "xz"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("this needs a machine with Debian's tools: %w", err)
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		return nil, fmt.Errorf("this needs the package debian-archive-keyring: %w", err)
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
	a := &archive{dir: dir, options: aptOptions(dir, sources)}
	_, err := output(a.apt(ctx, "update"))
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

func (a *archive) apt(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "apt-get", append(a.options, args...)...)
	cmd.Dir = a.dir
	return cmd
}

// unpack downloads packages, whose signatures apt-get checks, and unpacks them
// into dir.
func (a *archive) unpack(ctx context.Context, dir string, packages ...string) error {
	if _, err := output(a.apt(ctx, append([]string{"download"}, packages...)...)); err != nil {
		return err
	}
	for _, name := range packages {
		file, err := one(a.dir, name+"_*.deb")
		if err != nil {
			return err
		}
		if _, err := output(exec.CommandContext(ctx, "dpkg", "-x", file, dir)); err != nil {
			return err
		}
	}
	return nil
}

// machineMirror returns the mirror of Debian that this machine uses.
func machineMirror(ctx context.Context) string {
	uris, _ := output(exec.CommandContext(ctx, "apt-get", "indextargets",
		"--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian"))
	first, _, _ := strings.Cut(uris, "\n")
	return cmp.Or(first, mirror)
}

// output runs a command. What it complains of is in the error.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	said := ""
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		said = ": " + strings.Join(strings.Fields(string(exit.Stderr)), " ")
	}
	return "", fmt.Errorf("%s: %w%s", filepath.Base(cmd.Path), err, said)
}
