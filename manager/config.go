package manager

import (
	"errors"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// Config is what a [Manager] needs. Plugins, Host, Mounter and Source are required; the
// zero value of all else is ready for use.
type Config struct {
	// Plugins are those of this node, made with the same Host.
	Plugins *volume.VolumePluginMgr
	Host    volume.VolumeHost
	// Mounter is asked what is mounted. If it is a mount.Watcher, as a *mount.Mounter
	// is, volumes that somebody else unmounts are noticed at once, and else at the
	// next resync. If it is a mount.Identifier, too, so are those in whose place there
	// is another mount.
	Mounter mount.Interface
	// Source says what is wanted.
	Source Source

	// NodeLabels are the labels of this node, which the node affinity of a persistent
	// volume chooses by. Nil: kubernetes.io/hostname alone, which is the host's
	// NodeName. A volume that is for other nodes is not set up.
	NodeLabels map[string]string

	// Attacher attaches the volumes of plugins that have to be attached. Nil: the
	// plugin's own, on this node. Where something else attaches, a controller, it
	// waits for that.
	Attacher Attacher

	// Logger is told what the manager does. Nil: nobody is.
	Logger *slog.Logger
	// Events are told what becomes of volumes, one at a time and in order. It must
	// not wait, nor call the manager. Nil: nobody is.
	Events func(Event)
	// Metrics get counts and durations. Nil: nobody does. Its methods are called
	// from several goroutines, and must not wait.
	Metrics Metrics

	// ReportFirst: a volume is attached only once MarkVolumesAsReportedInUse has named
	// it, so that whoever detaches volumes of lost nodes knows of it before.
	ReportFirst bool

	// Workers is how many operations run at the same time, not counting those that take
	// longer than a few seconds: they wait for a server that does not answer, most
	// likely, and keep no other volume waiting. 0: 32.
	Workers int
	// Timeout is how long an operation may take before its context ends and it is
	// tried again later; 0: 10 minutes.
	Timeout time.Duration
	// SourceTimeout is how long the source may take to answer a question before its
	// context ends, it counts as unanswered, and is asked again later; 0: 30 seconds.
	// What of a volume is not answered within a second keeps no other volume waiting.
	SourceTimeout time.Duration
	// Backoff is the time between tries of what fails: it begins with the first, and
	// doubles up to the second. 0: 500 ms and 2 minutes.
	Backoff, MaxBackoff time.Duration
	// Resync is how often everything is looked at though nothing has happened; 0: 10
	// minutes, less than 0: never.
	Resync time.Duration
	// Refresh is how often volumes whose content follows something else
	// (volume.RemountVolumePlugin) are set up again; 0: each minute, less than 0: only
	// when MarkRemountRequired says so.
	Refresh time.Duration
}

// check refuses what cannot work, and fills in what is left open.
func (c *Config) check() error {
	switch {
	case c.Plugins == nil:
		return errors.New("manager: Config.Plugins is missing")
	case c.Host == nil:
		return errors.New("manager: Config.Host is missing")
	case c.Mounter == nil:
		return errors.New("manager: Config.Mounter is missing")
	case c.Source == nil:
		return errors.New("manager: Config.Source is missing")
	case c.Workers < 0, c.Timeout < 0, c.SourceTimeout < 0, c.Backoff < 0, c.MaxBackoff < 0:
		return errors.New("manager: Config: Workers, Timeout, SourceTimeout and Backoff are not less than 0")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Events = inOneLine(c.Events)
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if c.Workers == 0 {
		c.Workers = 32
	}
	c.Timeout = orElse(c.Timeout, 10*time.Minute)
	c.SourceTimeout = orElse(c.SourceTimeout, 30*time.Second)
	c.Backoff = orElse(c.Backoff, 500*time.Millisecond)
	c.MaxBackoff = orElse(c.MaxBackoff, 2*time.Minute)
	c.Resync = orElse(c.Resync, 10*time.Minute)
	c.Refresh = orElse(c.Refresh, time.Minute)
	return nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
