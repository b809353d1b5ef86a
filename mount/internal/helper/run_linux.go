package helper

import (
	"context"
	"os"
	"os/exec"
	"slices"

	"github.com/volumekit/volumekit/internal/processgroup"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

// A Run is one execution of a helper, in a process group of its own.
type Run struct {
	cmd     *exec.Cmd
	secrets []options.Secret // to redact from the output
	output  *os.File
	secret  *os.File // the secret file, or nil
}

// NewRun prepares the run of a helper that mounts a spec at a place. The caller closes it.
func NewRun(helper, place string, s *spec.Spec) (*Run, error) {
	credentials, rest, err := readCredentials(s.FSType, s.Secrets)
	if err != nil {
		return nil, err
	}
	file, err := newSecretFile(s.FSType, rest)
	if err != nil {
		return nil, err
	}
	r := &Run{
		secrets: append(slices.Clip(rest), splitCredentials(credentials)...),
		cmd: &exec.Cmd{
			Path: helper, Dir: "/",
			Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
		},
	}
	if r.output, err = newMemoryFile("said", make([]byte, maxOutput)); err != nil {
		return nil, err
	}
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	list := optionsFor(s.Options)
	if content := credentials + file.content; content != "" {
		if r.secret, err = newMemoryFile("secret", []byte(content)); err != nil {
			r.Close()
			return nil, err
		}
		r.cmd.ExtraFiles = []*os.File{r.secret}
		list = append(list, file.option+"/proc/self/fd/3")
	}
	r.cmd.Args = argumentsFor(helper, place, s, list)
	return r, nil
}

// Close closes the files of the run.
func (r *Run) Close() {
	_ = r.output.Close()
	if r.secret != nil {
		_ = r.secret.Close()
	}
}

// Execute runs the helper until its end. If ctx ends earlier, it kills the process group and calls abandon, which
// must make the place useless for a mount that is under way. The daemon of a mounted file system lives on.
func (r *Run) Execute(ctx context.Context, abandon func()) error {
	if err := processgroup.Run(ctx, r.cmd, abandon); err != nil {
		return r.Fail(err)
	}
	return nil
}

// Fail returns an [*Error] of the run with a cause.
func (r *Run) Fail(cause error) error {
	return &Error{Helper: r.cmd.Path, Output: r.readOutput(), Err: cause}
}
