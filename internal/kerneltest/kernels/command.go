package kernels

import (
	"context"
	"os"
	"os/exec"
)

// memory is the directory for the file with the kernel's memory, if it exists.
const memory = "/dev/shm"

// Command returns a command that runs the kernel with arguments, which are the
// kernel's command line.
func (k Kernel) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.Program, args...)
	cmd.Dir = k.Dir
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+k.Libraries)
	if _, err := os.Stat(memory); err == nil {
		cmd.Env = append(cmd.Env, "TMPDIR="+memory)
	}
	return cmd
}

func (p Program) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, p.Command[0], append(p.Command[1:], args...)...)
}
