package manager

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config configures a [Manager]. Plugins, Mounter and Pods are required; the zero value of
// every other field selects its default.
type Config struct {
	// Plugins are the plugins of this node. The manager works on the host of this plugin
	// manager.
	Plugins *volume.VolumePluginMgr
	// Mounter reads the mount table. With a mount.TableWatcher or a mount.Watcher, such as
	// *mount.Mounter, the manager reacts at once when another process unmounts a volume;
	// without one it reacts at the next resync. With a mount.Identifier it also detects another
	// mount in the place of a volume.
	Mounter mount.Interface
	// Pods lists the pods of this node. An [IncrementalPodSource] makes the cost of a change
	// independent of the number of pods.
	Pods PodSource
	// Claims returns the claims of the pods and their persistent volumes; it may be the same
	// value as Pods. If one of them cannot be read, its volume is not set up, and the pod's
	// existing volume stays; other volumes do not wait for it. With a [ChangeNotifier] the
	// manager reads an object after each reported change. Nil: there are no claims.
	Claims volume.ClaimReader

	// NodeLabels are the labels of this node, for the node affinity of persistent volumes.
	// Nil: kubernetes.io/hostname alone, with the host's NodeName. A volume whose affinity
	// excludes this node is not set up. [Manager.SetNodeLabels] replaces them.
	NodeLabels map[string]string

	// Attacher attaches and detaches volumes. Nil: the plugins attach on this node. Where a
	// controller attaches, the Attacher waits for the controller. With an AttachmentVerifier
	// (the default is one) the manager detects detaches by other programs.
	Attacher Attacher

	// Logger receives the manager's log. Nil: discarded.
	Logger *slog.Logger
	// Events receives the events of volumes, one at a time and in order. It must neither
	// block nor call the manager. Nil: discarded.
	Events func(Event)
	// ControllerExpands states that a controller grows the storage of persistent volumes, as in a
	// cluster, and raises their capacity afterwards. The requested size of a volume is then its
	// capacity. False: the requested size is the larger one of the capacity and the claim's
	// request.
	ControllerExpands bool
	// Expansions receives the result of each attempt to grow a volume, under the rules of
	// Events and after the event. The manager grows a volume whose requested size exceeds its
	// known size, once the volume is set up for a pod that may write to it.
	// The known size is the capacity in the claim's status or, without one, the size that was
	// requested when the volume was set up. Nil: discarded.
	Expansions func(Expansion)
	// Metrics receives counts and durations. Its methods are called from several goroutines
	// and must not block. Nil: discarded.
	Metrics Metrics

	// ReportFirst delays the attach of a volume until MarkVolumesAsReportedInUse has named
	// the volume, so that a controller sees a volume in use before the node uses it. A program
	// writes the list when SubscribeVolumesInUse reports a change.
	ReportFirst bool

	// Workers limits the concurrent operations of one plugin; plugins do not share workers.
	// Attach and detach operations have the same number of workers of their own. An
	// operation that runs longer than a few seconds, most likely because a server does not
	// respond, does not count, until there are eight times as many operations or 1,024,
	// whichever is less. 0: 512.
	Workers int
	// BackendWorkers limits the concurrent operations on one server or device that volumes
	// share (volume.BackendVolumePlugin). For a volume without a shared backend it limits the
	// concurrent tear-downs of the volume from several pods. 0: 32.
	BackendWorkers int
	// Timeout limits one operation: then its context ends, and the operation is retried
	// later. 0: 10 minutes.
	Timeout time.Duration
	// SourceTimeout limits one read from Pods or Claims: then its context ends, the read counts as
	// failed and is retried later. 0: 30 seconds. A read that takes longer than a second delays
	// no other volume.
	SourceTimeout time.Duration
	// Backoff is the pause after the first failure; the pause doubles with each further
	// failure, up to MaxBackoff. 0: 500 ms and 2 minutes.
	Backoff, MaxBackoff time.Duration
	// Resync is the period of full checks of all pods, volumes and mounts. 0: 10 minutes;
	// less than 0: never.
	Resync time.Duration
	// AttachCheck is the period at which the manager verifies attached volumes
	// (AttachmentVerifier); it attaches a volume again that another program has detached. 0:
	// each minute; less than 0: never.
	AttachCheck time.Duration
	// Refresh is the period at which volumes whose content follows an object of the API
	// (volume.RemountVolumePlugin) are set up again. 0: each minute; less than 0: only after
	// MarkRemountRequired.
	Refresh time.Duration
}

// check validates the configuration and sets the defaults.
func (c *Config) check() error {
	if err := cmp.Or(c.checkParts(), c.checkNumbers()); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Claims == nil {
		c.Claims = noClaims{}
	}
	c.Events = serializeEvents(c.Events)
	if c.Expansions == nil {
		c.Expansions = func(Expansion) {}
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	c.Workers = cmp.Or(c.Workers, 512)
	c.BackendWorkers = cmp.Or(c.BackendWorkers, 32)
	c.Timeout = orElse(c.Timeout, 10*time.Minute)
	c.SourceTimeout = orElse(c.SourceTimeout, 30*time.Second)
	c.Backoff = orElse(c.Backoff, 500*time.Millisecond)
	c.MaxBackoff = orElse(c.MaxBackoff, max(c.Backoff, 2*time.Minute))
	c.Resync = orElse(c.Resync, 10*time.Minute)
	c.AttachCheck = orElse(c.AttachCheck, time.Minute)
	c.Refresh = orElse(c.Refresh, time.Minute)
	return nil
}

var configPath = field.NewPath("Config")

// checkParts refuses missing parts, including nil pointers in an interface.
func (c *Config) checkParts() error {
	type part struct {
		name  string
		value any
	}
	for _, p := range []part{{"Plugins", c.Plugins}, {"Mounter", c.Mounter}, {"Pods", c.Pods}} {
		if input.IsNil(p.value) {
			return field.Required(configPath.Child(p.name), "a manager has no default for this field")
		}
	}
	for _, p := range []part{{"Claims", c.Claims}, {"Attacher", c.Attacher}, {"Metrics", c.Metrics}} {
		if p.value != nil && input.IsNil(p.value) {
			return field.Invalid(configPath.Child(p.name), fmt.Sprintf("%T", p.value), "must not be a nil pointer in an interface")
		}
	}
	if c.Plugins.Host() == nil {
		return field.Invalid(configPath.Child("Plugins"), "the zero value", "must be the result of NewVolumePluginMgr")
	}
	return nil
}

func (c *Config) checkNumbers() error {
	if c.Workers < 0 {
		return field.Invalid(configPath.Child("Workers"), c.Workers, "must be at least 0")
	}
	if c.BackendWorkers < 0 {
		return field.Invalid(configPath.Child("BackendWorkers"), c.BackendWorkers, "must be at least 0")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Timeout", c.Timeout}, {"SourceTimeout", c.SourceTimeout}, {"Backoff", c.Backoff}, {"MaxBackoff", c.MaxBackoff}} {
		if d.value < 0 {
			return field.Invalid(configPath.Child(d.name), d.value.String(), "must be at least 0")
		}
	}
	if c.MaxBackoff > 0 && c.MaxBackoff < c.Backoff {
		return field.Invalid(configPath.Child("MaxBackoff"), c.MaxBackoff.String(), "must be at least Backoff, "+c.Backoff.String())
	}
	return nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
