package local

import (
	"context"

	utilexec "k8s.io/utils/exec"
)

// SetPrograms replaces the programs of the system. It is to be called before Init.
func (p *Plugin) SetPrograms(run func(ctx context.Context, name string, args ...string) utilexec.Cmd) {
	p.run = run
}
