package registration

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volumekit/volumekit/internal/input"
)

// refuse refuses configurations.
const refuse = input.Operation("registration")

// A NodeWriter writes the drivers of this node to the cluster. node.CSINode of module controllers is
// one. Calls for one driver come one at a time.
type NodeWriter interface {
	// PutDriver adds the driver to the node's CSINode object, or replaces its entry, and sets the
	// labels of the topology on the Node object. It does nothing if both are so already. An error
	// that wraps neither volume.ErrTransient nor volume.ErrUncertain is the driver's fault, such as a
	// topology that contradicts the node's labels: the driver receives it.
	PutDriver(ctx context.Context, driver storagev1.CSINodeDriver, topology map[string]string) error
	// RemoveDriver removes the entry of the driver. A missing entry is no error. The labels stay.
	RemoveDriver(ctx context.Context, name string) error
}

// Config configures a [Watcher]. Dir is required; zero values of the others mean their defaults.
type Config struct {
	// Dir is the absolute path of the directory of sockets. Run creates it with mode 0755.
	Dir string
	// Node writes registered drivers to the cluster. Nil: no cluster.
	Node NodeWriter
	// Changed is called with the name of a driver after its registration and after its
	// unregistration. It must not block. Nil: not called.
	Changed func(driver string)
	// Logger receives registrations and failures. Nil: discarded.
	Logger *slog.Logger

	// Timeout limits each call of a registrar, and each call of Node. 0: 10 s. The driver's
	// NodeGetInfo has 2 minutes.
	Timeout time.Duration
	// Backoff is the pause after the first failure of a socket; it doubles with each further one.
	// 0: 500 ms.
	Backoff time.Duration
	// MaxBackoff is the longest pause. 0: 2 minutes.
	MaxBackoff time.Duration
	// Poll is the interval of reading a directory that cannot be watched, as on other systems than
	// Linux. 0: 5 s.
	Poll time.Duration
}

// checked returns the configuration with its defaults.
func (c Config) checked() (Config, error) {
	if !filepath.IsAbs(c.Dir) {
		return c, refuse.Refuse("Dir", c.Dir, "must be an absolute path")
	}
	for name, d := range map[string]time.Duration{
		"Timeout": c.Timeout, "Backoff": c.Backoff, "MaxBackoff": c.MaxBackoff, "Poll": c.Poll,
	} {
		if d < 0 {
			return c, refuse.Refuse(name, d, "must be at least 0")
		}
	}
	c.Dir = filepath.Clean(c.Dir)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Backoff = cmp.Or(c.Backoff, 500*time.Millisecond)
	c.MaxBackoff = max(c.Backoff, cmp.Or(c.MaxBackoff, 2*time.Minute))
	c.Poll = cmp.Or(c.Poll, 5*time.Second)
	if c.Changed == nil {
		c.Changed = func(string) {}
	}
	return c, nil
}
