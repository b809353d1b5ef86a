package kubeserver

import (
	"context"
	"io"
)

// A Sidecar is a program of the Kubernetes project that runs beside CSI drivers.
type Sidecar struct {
	Name    string
	Version string // that the go.mod in the directory buildsidecars requires
	module  string
}

// The sidecars that tests and benchmarks compare with.
var (
	Attacher    = Sidecar{"csi-attacher", "v4.13.0", "github.com/kubernetes-csi/external-attacher/v4"}
	Provisioner = Sidecar{"csi-provisioner", "v6.4.0", "github.com/kubernetes-csi/external-provisioner/v6"}
	Resizer     = Sidecar{"csi-resizer", "v2.3.0", "github.com/kubernetes-csi/external-resizer/v2"}
)

// Sidecars are all of them.
func Sidecars() []Sidecar { return []Sidecar{Attacher, Provisioner, Resizer} }

// Find returns the path of the program in the cache. The error wraps fs.ErrNotExist if it is missing.
func (s Sidecar) Find() (string, error) { return s.program().find() }

// Fetch is [Fetch] for the program. source is the path of this package's directory buildsidecars.
func (s Sidecar) Fetch(ctx context.Context, source string, progress io.Writer) (string, error) {
	return s.program().fetch(ctx, source, progress)
}

func (s Sidecar) program() optimizedProgram {
	return optimizedProgram{name: s.Name, dir: s.Name + "-" + s.Version + "-optimized", command: s.module + "/cmd/" + s.Name}
}
